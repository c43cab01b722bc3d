#include "brigade/ps/client/early_push.h"

#include <algorithm>
#include <utility>

namespace brigade::ps {

EarlyPush::EarlyPush(std::vector<std::size_t> order) : order_(std::move(order)) {}

void EarlyPush::add(at::Tensor gradient, at::Tensor sent) {
  given_.push_back(std::move(gradient));
  sent_.push_back(std::move(sent));
}

bool EarlyPush::begins(std::span<const at::Tensor> gradients) const {
  const auto count = std::ranges::count_if(gradients, &at::Tensor::defined);
  if (static_cast<std::size_t>(count) != order_.size()) return false;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const at::Tensor& gradient = gradients[order_[i]];
    if (!gradient.defined() || gradient.layout() != at::kStrided) return false;
    if (i < given_.size() && !given_[i].is_same(gradient)) return false;
  }
  return true;
}

}  // namespace brigade::ps
