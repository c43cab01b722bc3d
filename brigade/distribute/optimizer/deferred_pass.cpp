#include "brigade/distribute/optimizer/deferred_pass.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>
#include <utility>

namespace brigade::distribute {

namespace {

constexpr int kNotBegun = -1;

}  // namespace

// The hook of the loss runs first, and gets the pass's number. A pass inside of it has another.
DeferredPass::DeferredPass(const at::Tensor& loss, std::span<const at::Tensor> variables,
                           Policy policy)
    : loss_(loss),
      variables_(variables),
      policy_(std::move(policy)),
      kept_(variables.size()),
      pass_(kNotBegun),
      hook_(loss.register_hook([this](const at::Tensor&) {
        if (pass_ == kNotBegun) pass_ = torch::autograd::get_current_graph_task_id();
      })),
      scope_(variables::kGradientDeferralSlot, this) {}

DeferredPass::~DeferredPass() {
  loss_.remove_hook(hook_);
}

// The graph is whole while the loss exists, also below what the pass has done already.
void DeferredPass::find_uses() {
  using torch::autograd::Node;
  has_uses_ = true;
  std::unordered_map<const Node*, Uses*> of_leaf;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const auto leaf = torch::autograd::impl::try_get_grad_accumulator(variables_[i]);
    if (!leaf) continue;
    const auto [uses, is_new] = uses_.try_emplace(variables_[i].unsafeGetTensorImpl());
    if (!is_new) {  // autograd has its gradient twice
      of_leaf.erase(leaf.get());
      continue;
    }
    uses->second.index = i;
    of_leaf[leaf.get()] = &uses->second;
  }
  std::vector<const Node*> open = {loss_.grad_fn().get()};
  std::unordered_set<const Node*> seen = {nullptr};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      open.push_back(edge.function.get());
      const auto found = of_leaf.find(edge.function.get());
      if (found == of_leaf.end()) continue;
      ++found->second->count;
      found->second->user = node;
    }
  }
}

bool DeferredPass::takes(const at::Tensor& variable, std::int64_t bytes) {
  if (pass_ == kNotBegun || torch::autograd::get_current_graph_task_id() != pass_) return false;
  if (!has_uses_) find_uses();
  const auto found = uses_.find(variable.unsafeGetTensorImpl());
  if (found == uses_.end()) return false;
  const Uses& uses = found->second;
  const auto node = torch::autograd::get_current_node();
  return uses.count == 1 && uses.user == node.get() && node->post_hooks().empty() &&
         torch::autograd::impl::hooks(variable).empty() && !uses.is_taken &&
         policy_.wants(uses.index, bytes);
}

void DeferredPass::take(variables::DeferredGradientPtr gradient) {
  Uses& uses = uses_.at(gradient->variable().unsafeGetTensorImpl());
  uses.is_taken = true;
  if (policy_.taken && policy_.taken(uses.index, gradient)) return;
  kept_[uses.index] = std::move(gradient);
}

}  // namespace brigade::distribute
