#pragma once

#include <cstdint>

namespace brigade::optim {

/// Numbers of one update by RMSProp. They mean what they mean in `RmsProp`.
struct RmsPropNumbers {
  double learning_rate;
  double decay;
  double momentum;
  double epsilon;
  double weight_decay;
};

/// Elements of a range in the CPU's memory; null: the rule has no such slot.
template <class Scalar>
struct RmsPropElements {
  Scalar* parameter;
  const Scalar* gradient;
  Scalar* mean_square;
  Scalar* mean;
  Scalar* velocity;
};

/// Updates the elements from `begin` to `end`, in the form of TensorFlow (epsilon and the rate are
/// within the velocity) or of PyTorch. An element's bits do not depend on the range. For float and
/// double. Thread-safety: ranges that do not overlap may be updated at the same time.
template <class Scalar>
void update_in_tensorflow_form(const RmsPropElements<Scalar>& elements, std::int64_t begin,
                               std::int64_t end, const RmsPropNumbers& numbers);
template <class Scalar>
void update_in_pytorch_form(const RmsPropElements<Scalar>& elements, std::int64_t begin,
                            std::int64_t end, const RmsPropNumbers& numbers);

}  // namespace brigade::optim
