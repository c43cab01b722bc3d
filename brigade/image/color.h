#pragma once

#include "brigade/image/image.h"

namespace brigade::image {

// Color adjustments, as tf.image.adjust_*. Values of a `FloatImage` are 0 to 1. An `Image` is
// converted to that scale and back, as in TensorFlow (brigade/image/normalize.h). Thread-safety:
// pure functions.

/// Adds `delta` to every value: -1 makes the image black, 1 white. Float values are not clamped.
FloatImage adjust_brightness(FloatImage image, float delta);
Image adjust_brightness(const ImageView& image, float delta);

/// Moves every value away from its channel's mean by `factor`: 0 makes a channel one gray, 1
/// changes nothing. Float values are not clamped.
FloatImage adjust_contrast(FloatImage image, float factor);
Image adjust_contrast(const ImageView& image, float factor);

/// Multiplies the saturation (of hue, saturation, value) by `factor`, clamped to 0 to 1: 0 gives
/// gray, 1 changes nothing. Throws kInvalidArgument unless there are three channels.
FloatImage adjust_saturation(FloatImage image, float factor);
Image adjust_saturation(const ImageView& image, float factor);

/// Rotates the hue by `delta` of a full circle, -1 to 1. Throws kInvalidArgument outside that range
/// and unless there are three channels.
FloatImage adjust_hue(FloatImage image, float delta);
Image adjust_hue(const ImageView& image, float delta);

}  // namespace brigade::image
