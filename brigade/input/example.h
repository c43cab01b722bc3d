#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace brigade::input {

/// One thing to learn from: what is seen, and the class it belongs to.
///
/// Thread-safety: a value; the tensor's memory may be shared with the whole data set: never write
/// to it in place.
struct LabeledExample {
  at::Tensor features;
  std::int64_t label = 0;
};

/// A batch of labeled examples.
///
/// Thread-safety: as `LabeledExample`.
struct LabeledBatch {
  at::Tensor features;  ///< [N, ...]
  at::Tensor labels;    ///< int64 [N]
};

}  // namespace brigade::input
