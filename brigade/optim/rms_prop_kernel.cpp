#include "brigade/optim/rms_prop_kernel.h"

#include <algorithm>
#include <cmath>

namespace brigade::optim {
namespace {

enum class Form { kTensorFlow, kPyTorch };

/// The branches do not depend on the element: each case is one loop of vector operations.
template <class Scalar, Form kForm, bool kCentered, bool kMomentum>
void update_elements(const RmsPropElements<Scalar>& e, std::int64_t begin, std::int64_t end,
                     const RmsPropNumbers& n) {
  const auto keep = static_cast<Scalar>(n.decay);
  const auto add = static_cast<Scalar>(1 - n.decay);
  const auto momentum = static_cast<Scalar>(n.momentum);
  const auto epsilon = static_cast<Scalar>(n.epsilon);
  const auto rate = static_cast<Scalar>(n.learning_rate);
  const auto weight_decay = static_cast<Scalar>(n.weight_decay);
  for (std::int64_t i = begin; i < end; ++i) {
    const Scalar gradient = e.gradient[i] + weight_decay * e.parameter[i];
    const Scalar mean_square = keep * e.mean_square[i] + add * gradient * gradient;
    e.mean_square[i] = mean_square;
    Scalar under_root = mean_square;
    if constexpr (kCentered) {
      const Scalar mean = keep * e.mean[i] + add * gradient;
      e.mean[i] = mean;
      under_root = std::max(mean_square - mean * mean, Scalar{0});  // rounding may give less
    }
    Scalar change;
    if constexpr (kForm == Form::kTensorFlow) {
      change = rate * gradient / std::sqrt(under_root + epsilon);
    } else {
      change = gradient / (std::sqrt(under_root) + epsilon);
    }
    if constexpr (kMomentum) {
      change += momentum * e.velocity[i];
      e.velocity[i] = change;
    }
    e.parameter[i] -= kForm == Form::kTensorFlow ? change : rate * change;
  }
}

template <class Scalar, Form kForm>
void update_by_slots(const RmsPropElements<Scalar>& e, std::int64_t begin, std::int64_t end,
                     const RmsPropNumbers& n) {
  if (e.mean != nullptr) {
    e.velocity != nullptr ? update_elements<Scalar, kForm, true, true>(e, begin, end, n)
                          : update_elements<Scalar, kForm, true, false>(e, begin, end, n);
  } else {
    e.velocity != nullptr ? update_elements<Scalar, kForm, false, true>(e, begin, end, n)
                          : update_elements<Scalar, kForm, false, false>(e, begin, end, n);
  }
}

}  // namespace

template <class Scalar>
void update_in_tensorflow_form(const RmsPropElements<Scalar>& elements, std::int64_t begin,
                               std::int64_t end, const RmsPropNumbers& numbers) {
  update_by_slots<Scalar, Form::kTensorFlow>(elements, begin, end, numbers);
}

template <class Scalar>
void update_in_pytorch_form(const RmsPropElements<Scalar>& elements, std::int64_t begin,
                            std::int64_t end, const RmsPropNumbers& numbers) {
  update_by_slots<Scalar, Form::kPyTorch>(elements, begin, end, numbers);
}

template void update_in_tensorflow_form(const RmsPropElements<float>&, std::int64_t, std::int64_t,
                                        const RmsPropNumbers&);
template void update_in_tensorflow_form(const RmsPropElements<double>&, std::int64_t, std::int64_t,
                                        const RmsPropNumbers&);
template void update_in_pytorch_form(const RmsPropElements<float>&, std::int64_t, std::int64_t,
                                     const RmsPropNumbers&);
template void update_in_pytorch_form(const RmsPropElements<double>&, std::int64_t, std::int64_t,
                                     const RmsPropNumbers&);

}  // namespace brigade::optim
