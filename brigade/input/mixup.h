#pragma once

#include <cstdint>

#include "brigade/data/transforms/map.h"
#include "brigade/input/labeled_example.h"

namespace brigade::input {

// Augmentation of whole batches: each example is mixed with the one before it, the first with the
// last, and so are their labels. Shuffle the examples before they are batched. For use in `map`
// after `batch`, where the generator is a function of the seed, the epoch and the batch's position:
// a resumed training mixes the same examples by the same amounts.
//
//   auto train = examples.shuffle(50'000).batch(256).map(
//       [](const LabeledBatch& batch, data::ElementContext& context) {
//         return context.rng.uniform() < 0.5 ? mixup(batch, {.num_classes = 1000}, context)
//                                            : cutmix(batch, {.num_classes = 1000}, context);
//       });
//   ...
//   auto loss = losses::categorical_crossentropy(model(local.features), local.labels);
//
// The labels become distributions over the classes, float32 [N, classes]: losses that take those
// are `layers::losses::categorical_crossentropy`, `layers::v1::losses::softmax_cross_entropy` and
// Keras's "categorical_crossentropy". Losses and accuracies on mixed batches are no measure of the
// model; evaluate on unmixed ones.

/// The names of torchvision's options, and its defaults.
struct MixOptions {
  /// The number of classes; needed if the labels are class numbers, int64 [N]. 0 for labels that
  /// are distributions already, [N, classes]: one-hot, smoothed or mixed.
  std::int64_t num_classes = 0;
  /// The fraction of each example that is kept is drawn from the beta distribution with this
  /// parameter twice, once a batch. Small values mix few batches much: 0.2 is usual for mixup of
  /// ImageNet, 1 for cutmix.
  double alpha = 1.0;
};

/// Mixup (Zhang et al., 2018): every example is the weighted mean of two. Throws kInvalidArgument
/// unless alpha is above 0, features are floating, and labels are classes below `num_classes` or
/// distributions. torchvision: v2.MixUp.
LabeledBatch mixup(const LabeledBatch& batch, const MixOptions& options,
                   data::ElementContext& context);

/// CutMix (Yun et al., 2019): a window of every image, the same in all, comes from another image;
/// labels are mixed by its area. Features are [N, ..., height, width] of any dtype. Throws
/// kInvalidArgument for fewer dimensions, and as `mixup`. torchvision: v2.CutMix.
LabeledBatch cutmix(const LabeledBatch& batch, const MixOptions& options,
                    data::ElementContext& context);

}  // namespace brigade::input
