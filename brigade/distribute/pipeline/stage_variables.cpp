#include "brigade/distribute/pipeline/stage_variables.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>
#include <utility>

#include "brigade/base/copy_bytes.h"
#include "brigade/base/error.h"

namespace brigade::distribute {

namespace {

using torch::autograd::Node;
using torch::autograd::impl::gradient_edge;

constexpr std::size_t kBits = 8;

std::size_t bytes_of_set(std::size_t variables) {
  return (variables + kBits - 1) / kBits;
}

void write_set(const VariableSet& set, std::uint8_t* bytes) {
  for (std::size_t i = 0; i < set.size(); ++i)
    if (set[i]) bytes[i / kBits] |= static_cast<std::uint8_t>(1U << (i % kBits));
}

VariableSet read_set(const std::uint8_t* bytes, std::size_t variables) {
  VariableSet set(variables, false);
  for (std::size_t i = 0; i < variables; ++i)
    set[i] = ((bytes[i / kBits] >> (i % kBits)) & 1U) != 0;
  return set;
}

}  // namespace

VariableUse VariableUse::with(const VariableSet& variables) const {
  VariableUse next = *this;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!variables[i]) continue;
    if (used[i]) next.tied[i] = true;
    next.used[i] = true;
  }
  return next;
}

std::vector<std::size_t> tied_before(const VariableUse& before, const VariableUse& in_all) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < in_all.tied.size(); ++i)
    if (in_all.tied[i] && before.used[i]) numbers.push_back(i);
  return numbers;
}

StageVariables::StageVariables(int micro_batches)
    : trained_elsewhere_(static_cast<std::size_t>(micro_batches)) {}

void StageVariables::begin_step() {
  if (source_) variables_ = source_();
  numbers_.clear();
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const at::Tensor& component = variables_[i].component(0);
    if (component.numel() > 0) numbers_.emplace(component.const_data_ptr(), i);
  }
}

void StageVariables::end_step() {
  variables_.clear();
  numbers_.clear();
}

std::optional<std::size_t> StageVariables::find(const at::Tensor& component) const {
  if (component.numel() == 0) return std::nullopt;
  const auto found = numbers_.find(component.const_data_ptr());
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

void StageVariables::mark_trained_elsewhere(int micro_batch, std::size_t number) {
  trained_elsewhere_[static_cast<std::size_t>(micro_batch)].insert(variables_[number].name());
}

std::set<std::string> StageVariables::take_trained_elsewhere() {
  std::set<std::string> all;
  for (std::set<std::string>& names : trained_elsewhere_) all.merge(names);
  for (std::set<std::string>& names : trained_elsewhere_) names.clear();
  return all;
}

BackwardLeaves backward_leaves(const at::Tensor& root, const StageVariables& variables,
                               const at::Tensor& received, const at::Tensor& inner) {
  const bool has_node = inner.defined() && inner.requires_grad();
  return backward_leaves(root, variables, received,
                         has_node ? gradient_edge(inner).function.get() : nullptr);
}

BackwardLeaves backward_leaves(const at::Tensor& root, const StageVariables& variables,
                               const at::Tensor& received, const Node* inner) {
  BackwardLeaves leaves{.variables = variables.none()};
  if (!root.requires_grad()) return leaves;
  std::unordered_set<const Node*> seen;
  std::vector<Node*> open;
  const auto follow = [&](Node* node) {
    if (node == nullptr) return;
    if (node == inner) {
      leaves.has_inner = true;
    } else if (seen.insert(node).second) {
      open.push_back(node);
    }
  };
  const torch::autograd::Edge begin = gradient_edge(root);
  follow(begin.function.get());
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node)) {
      const auto number = variables.find(leaf->variable);
      if (number) {
        leaves.variables[*number] = true;
      } else if (received.defined() && leaf->variable.is_same(received)) {
        leaves.has_received = true;
      } else {
        leaves.has_others = true;
      }
    }
    for (const torch::autograd::Edge& edge : node->next_edges()) follow(edge.function.get());
  }
  return leaves;
}

at::Tensor to_bytes(const VariableUse& use) {
  const std::size_t bytes = bytes_of_set(use.used.size());
  const at::Tensor tensor = at::zeros({static_cast<std::int64_t>(2 * bytes)}, at::kByte);
  auto* const begin = tensor.mutable_data_ptr<std::uint8_t>();
  write_set(use.used, begin);
  write_set(use.tied, begin + bytes);
  return tensor;
}

std::int64_t bytes_of_use(std::size_t variables) {
  return static_cast<std::int64_t>(2 * bytes_of_set(variables));
}

VariableUse use_from_bytes(const at::Tensor& bytes, std::size_t variables) {
  const auto* const begin = bytes.const_data_ptr<std::uint8_t>();
  return {.used = read_set(begin, variables),
          .tied = read_set(begin + bytes_of_set(variables), variables)};
}

at::Tensor pack_gradients(const std::vector<std::size_t>& numbers,
                          const std::vector<at::Tensor>& gradients,
                          const StageVariables& variables) {
  std::size_t size = numbers.size();
  std::vector<at::Tensor> dense;
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined() && gradient.layout() != at::kStrided) {
      throw Error(ErrorCode::kUnimplemented, "The variable '",
                  variables.variable(numbers[dense.size()]).name(),
                  "' is used by stages of several workers, and its gradient is sparse: use dense "
                  "gradients, or cut the pipeline so that one worker has all layers that use it.");
    }
    dense.push_back(gradient.defined() ? gradient.detach().contiguous() : at::Tensor());
    if (gradient.defined()) size += dense.back().nbytes();
  }
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(size)}, at::kByte);
  auto* next = bytes.mutable_data_ptr<std::uint8_t>();
  for (const at::Tensor& gradient : dense) *next++ = gradient.defined() ? 1 : 0;
  for (const at::Tensor& gradient : dense) {
    if (!gradient.defined()) continue;
    base::copy_bytes(next, gradient.const_data_ptr(), gradient.nbytes());
    next += gradient.nbytes();
  }
  return bytes;
}

std::vector<at::Tensor> unpack_gradients(const at::Tensor& bytes,
                                         const std::vector<std::size_t>& numbers,
                                         const StageVariables& variables) {
  const auto check_bytes = [&](std::size_t wanted) {
    check_state(
        wanted <= bytes.nbytes(),
        "The gradients of tied weights came incomplete from another worker of the pipeline: "
        "make the same model in every worker.");
  };
  check_bytes(numbers.size());
  const auto* const has = bytes.const_data_ptr<std::uint8_t>();
  std::size_t offset = numbers.size();
  std::vector<at::Tensor> gradients(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (has[i] == 0) continue;
    const variables::Variable& variable = variables.variable(numbers[i]);
    gradients[i] = at::empty(variable.shape(), variable.dtype());
    check_bytes(offset + gradients[i].nbytes());
    base::copy_bytes(gradients[i].mutable_data_ptr(), has + offset, gradients[i].nbytes());
    offset += gradients[i].nbytes();
  }
  return gradients;
}

}  // namespace brigade::distribute
