#pragma once

#include "brigade/image/image.h"

namespace brigade::image {

// Changes of colors as tf.image.adjust_* make them. Values of a `FloatImage` are 0 to 1; an
// `Image` is changed in that scale and brought back, as there (brigade/image/convert.h).
// Thread-safety: pure functions.

/// Adds `delta` to every value: -1 makes all black, 1 all white. Float values are not limited.
FloatImage adjust_brightness(FloatImage image, float delta);
Image adjust_brightness(const ImageView& image, float delta);

/// Moves every value away from its channel's mean by `factor`: 0 makes a channel one gray, 1
/// changes nothing. Float values are not limited.
FloatImage adjust_contrast(FloatImage image, float factor);
Image adjust_contrast(const ImageView& image, float factor);

/// Multiplies the saturation (of hue, saturation, value) by `factor`, limited to 0 to 1: 0 gives
/// gray, 1 changes nothing. Throws kInvalidArgument unless there are three channels.
FloatImage adjust_saturation(FloatImage image, float factor);
Image adjust_saturation(const ImageView& image, float factor);

/// Turns the hue by `delta` of a full circle, -1 to 1. Throws kInvalidArgument outside of that, and
/// unless there are three channels.
FloatImage adjust_hue(FloatImage image, float delta);
Image adjust_hue(const ImageView& image, float delta);

}  // namespace brigade::image
