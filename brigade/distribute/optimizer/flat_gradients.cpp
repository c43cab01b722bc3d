#include "brigade/distribute/optimizer/flat_gradients.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace brigade::distribute {

FlatGradients::FlatGradients(const optim::OptimizerState& state, int replica,
                             std::int64_t bytes_per_bucket) {
  const at::NoGradGuard no_grad;
  for (const auto& storage : state.storages())
    buffers_.push_back(at::zeros_like(storage->master(replica)));
  const auto& variables = state.variables();
  const auto storage_of = [&](std::size_t i) {
    return static_cast<std::size_t>(std::ranges::find(state.storages(), variables[i].storage()) -
                                    state.storages().begin());
  };
  for (std::size_t i = 0; i < variables.size(); ++i) {
    gradients_.push_back(buffers_[storage_of(i)]
                             .narrow(0, variables[i].offset(), variables[i].numel())
                             .view(variables[i].shape()));
  }
  bucket_of_.resize(variables.size());
  std::vector<std::size_t> open;
  std::int64_t bytes = 0;
  const auto close = [&] {
    if (!open.empty()) add_bucket(state, storage_of(open.front()), open);
    open.clear();
    bytes = 0;
  };
  for (std::size_t i = variables.size(); i-- > 0;) {
    if (state.is_frozen(i)) continue;
    if (!open.empty() && storage_of(open.front()) != storage_of(i)) close();
    open.push_back(i);
    bytes += static_cast<std::int64_t>(gradients_[i].nbytes());
    if (bytes >= bytes_per_bucket) close();
  }
  close();
}

void FlatGradients::add_bucket(const optim::OptimizerState& state, std::size_t storage,
                               std::span<const std::size_t> variables) {
  for (const std::size_t i : variables) bucket_of_[i] = buckets_.size();
  const variables::Variable& first = state.variables()[variables.back()];
  const variables::Variable& last = state.variables()[variables.front()];
  const std::int64_t begin = first.offset();
  buckets_.push_back(buffers_[storage].narrow(0, begin, last.offset() + last.numel() - begin));
}

void FlatGradients::fill(std::size_t variable, const at::Tensor& gradient) const {
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;
  if (gradient.defined()) {
    gradients_[variable].copy_(gradient);
  } else {
    gradients_[variable].zero_();
  }
}

}  // namespace brigade::distribute
