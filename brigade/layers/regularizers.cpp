#include "brigade/layers/regularizers.h"

#include <ATen/core/Tensor.h>

#include <utility>

#include "brigade/base/error.h"

namespace brigade::layers {
namespace {

void check_scale(const char* regularizer, double scale) {
  if (scale >= 0.0) return;
  throw Error(ErrorCode::kInvalidArgument, regularizer, ": scale is ", scale,
              "; expected 0 or more");
}

}  // namespace

Regularizer l1_regularizer(double scale) {
  check_scale("l1_regularizer", scale);
  if (scale == 0.0) return nullptr;
  return [scale](const at::Tensor& value) { return value.abs().sum() * scale; };
}

Regularizer l2_regularizer(double scale) {
  check_scale("l2_regularizer", scale);
  if (scale == 0.0) return nullptr;
  return [scale](const at::Tensor& value) { return value.square().sum() * (0.5 * scale); };
}

Regularizer l1_l2_regularizer(double scale_l1, double scale_l2) {
  return sum_regularizer({l1_regularizer(scale_l1), l2_regularizer(scale_l2)});
}

Regularizer sum_regularizer(std::vector<Regularizer> regularizers) {
  std::erase_if(regularizers, [](const Regularizer& regularizer) { return !regularizer; });
  if (regularizers.empty()) return nullptr;
  return [regularizers = std::move(regularizers)](const at::Tensor& value) {
    at::Tensor sum = regularizers.front()(value);
    for (std::size_t i = 1; i < regularizers.size(); ++i) sum = sum + regularizers[i](value);
    return sum;
  };
}

}  // namespace brigade::layers
