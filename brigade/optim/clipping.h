#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace brigade::optim {

// Clip gradients between `Optimizer::aggregate` and `apply_gradients`: clipping one replica's part
// would give results that depend on the number of replicas. Undefined tensors, the gradients of
// parameters that the loss does not depend on, stay undefined and are ignored. Tensors that need no
// change are returned unchanged; no tensor is modified in place. Norms are accumulated in double in
// a fixed order, so on CPU their bits do not depend on the number of threads. Gradients of rows
// (`comm::has_rows`) stay so, unless zero is not between the bounds of `clip_by_value`.
//
// On other devices the norms, and the factors that follow from them, stay there, and the host waits
// for nothing. So it cannot refuse a norm that is not finite: as in TensorFlow, all tensors that it
// scales become NaN.

/// Clamps each element to [low, high]; NaN stays NaN. TensorFlow: tf.clip_by_value. Throws
/// kInvalidArgument if low > high or one is NaN.
std::vector<at::Tensor> clip_by_value(std::span<const at::Tensor> tensors, double low, double high);

/// Scales each tensor whose Euclidean norm is above `clip_norm` down to that norm. TensorFlow:
/// tf.clip_by_norm. Throws kInvalidArgument if `clip_norm` is not above 0, and kDataLoss naming the
/// tensor's index if a norm is not finite: an infinite gradient cannot be scaled, and NaN, as in
/// TensorFlow, would reach every weight. Tensors on other devices than the CPU are always copied.
std::vector<at::Tensor> clip_by_norm(std::span<const at::Tensor> tensors, double clip_norm);

/// A norm, on the device where it was computed. Reading its value waits for that device.
///
/// Thread-safety: immutable.
class Norm {
 public:
  explicit Norm(at::Tensor value) : value_(std::move(value)) {}
  double value() const;
  operator double() const { return value(); }  // NOLINT: it is a number
  /// A float64 scalar.
  const at::Tensor& tensor() const { return value_; }

 private:
  at::Tensor value_;
};

/// The result of `clip_by_global_norm`.
struct ClippedByGlobalNorm {
  std::vector<at::Tensor> tensors;
  Norm norm;  ///< before clipping
};

/// Scales all tensors by the same factor, so that their norm as one long vector is at most
/// `clip_norm` (Pascanu et al., 2013). TensorFlow: tf.clip_by_global_norm. If a norm is not finite,
/// this throws kDataLoss naming the first such tensor, where TensorFlow makes all tensors NaN, as
/// this does on other devices than the CPU. All tensors are on one device. Throws kInvalidArgument
/// if `clip_norm` is not above 0.
ClippedByGlobalNorm clip_by_global_norm(std::span<const at::Tensor> tensors, double clip_norm);

/// The Euclidean norm of all tensors as one long vector; 0 for none. Not finite if an element is
/// not; useful for monitoring. TensorFlow: tf.linalg.global_norm.
double global_norm(std::span<const at::Tensor> tensors);

namespace internal {

template <class Gradients>
std::vector<at::Tensor> elements_of(const Gradients& gradients) {
  std::vector<at::Tensor> elements;
  for (std::size_t i = 0; i < gradients.size(); ++i) elements.push_back(gradients[i]);
  return elements;
}

template <class Gradients>
void replace_elements(Gradients& gradients, std::vector<at::Tensor> elements) {
  for (std::size_t i = 0; i < elements.size(); ++i) gradients[i] = std::move(elements[i]);
}

}  // namespace internal

/// The same for any container whose i-th element can be read and assigned, for example `Gradients`:
///
///   Gradients gradients = adam.aggregate(adam.compute_gradients(loss));
///   const Norm norm = clip_by_global_norm_(gradients, 1.0);
///   adam.apply_gradients(gradients);
///
/// Its elements are replaced; nothing is changed if an error is thrown.
template <class Gradients>
void clip_by_value_(Gradients& gradients, double low, double high) {
  internal::replace_elements(gradients, clip_by_value(internal::elements_of(gradients), low, high));
}

template <class Gradients>
void clip_by_norm_(Gradients& gradients, double clip_norm) {
  internal::replace_elements(gradients, clip_by_norm(internal::elements_of(gradients), clip_norm));
}

/// Returns the norm before clipping.
template <class Gradients>
Norm clip_by_global_norm_(Gradients& gradients, double clip_norm) {
  ClippedByGlobalNorm clipped = clip_by_global_norm(internal::elements_of(gradients), clip_norm);
  internal::replace_elements(gradients, std::move(clipped.tensors));
  return clipped.norm;
}

}  // namespace brigade::optim
