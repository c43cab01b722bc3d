#include "brigade/distribute/optimizer/gradient_accumulator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <utility>
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/distribute/optimizer/sum_of_replicas.h"
#include "brigade/variables/memory_order.h"

namespace brigade::distribute {

GradientAccumulator::GradientAccumulator(const optim::OptimizerState& state, int replica)
    : state_(state),
      replica_(replica),
      rows_(state.variables().size()),
      present_(state.variables().size(), false),
      deferred_(state.variables().size()) {}
void GradientAccumulator::reserve() {
  sums_.resize(state_.variables().size());
  std::map<at::ScalarType, std::vector<std::size_t>> by_dtype;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (!state_.is_frozen(i))
      by_dtype[comm::accumulation_dtype(state_.variables()[i].dtype())].push_back(i);
  }
  for (const auto& [dtype, members] : by_dtype) {
    std::vector<std::int64_t> sizes;
    for (const std::size_t i : members) sizes.push_back(state_.variables()[i].numel());
    const c10::Device device = state_.variables().front().component(replica_).device();
    const variables::FlatLayout layout(dtype, sizes);
    memory_.push_back(at::zeros({layout.size()}, at::TensorOptions().dtype(dtype).device(device)));
    for (std::size_t k = 0; k < members.size(); ++k) {
      const variables::Variable& variable = state_.variables()[members[k]];
      sums_[members[k]] =
          memory_.back()
              .narrow(0, layout.offset(k), variable.numel())
              .view(variables::shape_in_memory(variable.shape(), variable.memory_format()));
    }
  }
}

void GradientAccumulator::add(const ReplicaGradients& gradients, std::optional<std::int64_t> global,
                              std::int64_t local) {
  const at::NoGradGuard no_grad;
  if (sums_.empty()) reserve();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& value = gradients[i].value;
    if (gradients[i].deferred) {
      defer(i, gradients[i].deferred);
    } else if (value.defined() && comm::has_rows(value)) {
      add_rows(i, value);
    } else if (value.defined()) {
      add_value(i, value);
    }
  }
  ++micro_batches_;
  if (global) {
    global_ += *global;
  } else {
    local_ = local_.value_or(0) + local;
  }
}

void GradientAccumulator::add_value(std::size_t variable, const at::Tensor& gradient) {
  add_deferred(variable);  // which came before
  if (present_[variable]) {
    sums_[variable].add_(gradient);
  } else {
    sums_[variable].copy_(gradient);  // overwrites the sums of an earlier group
  }
  present_[variable] = true;
}

void GradientAccumulator::defer(std::size_t variable,
                                const variables::DeferredGradientPtr& gradient) {
  std::vector<variables::DeferredGradientPtr>& kept = deferred_[variable];
  kept.push_back(gradient);
  std::int64_t bytes = 0;
  for (const variables::DeferredGradientPtr& each : kept) bytes += each->bytes();
  if (bytes > static_cast<std::int64_t>(sums_[variable].nbytes())) add_deferred(variable);
}

void GradientAccumulator::add_deferred(std::size_t variable) {
  const auto kept = std::exchange(deferred_[variable], {});
  if (kept.empty()) return;
  std::vector<variables::GradientPart> parts;
  if (present_[variable]) parts.push_back({.value = sums_[variable]});
  for (const variables::DeferredGradientPtr& each : kept) parts.push_back({.deferred = each});
  const auto order = comm::ReductionTree::chain(static_cast<int>(parts.size()));
  if (kept.front()->try_sum(parts, order, sums_[variable])) {
    present_[variable] = true;
    return;
  }
  for (const variables::DeferredGradientPtr& each : kept) add_value(variable, each->compute());
}

void GradientAccumulator::add_rows(std::size_t variable, const at::Tensor& gradient) {
  at::Tensor& sum = rows_[variable];
  const at::Tensor wide = gradient.to(comm::accumulation_dtype(gradient.scalar_type()));
  const std::vector<at::Tensor> parts = {sum, wide};
  sum = sum.defined() ? sum_of_replicas(parts) : wide;
}

std::vector<at::Tensor> GradientAccumulator::divided(double divisor) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sums(state_.variables().size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    add_deferred(i);
    if (present_[i]) {
      if (rows_[i].defined()) sums_[i].add_(rows_[i]);
      rows_[i].reset();
      sums[i] = divisor == 1.0 ? sums_[i] : sums_[i].div_(divisor);
    } else if (rows_[i].defined()) {
      sums[i] = divisor == 1.0 ? rows_[i] : rows_[i].div(divisor);
    }
  }
  return sums;
}

void GradientAccumulator::clear() {
  present_.assign(present_.size(), false);
  rows_.assign(rows_.size(), at::Tensor());
  deferred_.assign(deferred_.size(), {});
  micro_batches_ = 0;
  global_ = 0;
  local_.reset();
}

}  // namespace brigade::distribute
