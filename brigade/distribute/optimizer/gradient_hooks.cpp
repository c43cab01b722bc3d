#include "brigade/distribute/optimizer/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <exception>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/variables/memory_order.h"

namespace brigade::distribute {

namespace {

constexpr int kNoPass = -1;

}  // namespace

at::Tensor in_parameter_layout(const at::Tensor& gradient, SparseGradients sparse,
                               at::MemoryFormat format) {
  if (!gradient.defined()) return gradient;
  if (comm::has_rows(gradient)) {
    const at::Tensor rows = comm::to_sparse(comm::rows_of(gradient.detach()), gradient.sizes());
    if (sparse == SparseGradients::kKeepRows && format == at::MemoryFormat::Contiguous) return rows;
    return variables::in_memory_order(rows.to_dense(), format);
  }
  const bool is_dense = gradient.layout() == at::kStrided;
  return variables::in_memory_order(is_dense ? gradient : gradient.to_dense(), format);
}

struct alignas(64) GradientHooks::OfReplica {
  struct Reported {
    const void* gradient = nullptr;  // its identity
    at::Tensor values;               // dense, in memory order
  };
  struct Registered {
    std::shared_ptr<torch::autograd::Node> node;
    std::size_t key;
  };
  int replica = 0;
  std::vector<HookedParameter> parameters;
  int pass = kNoPass;              // the graph task that is watched
  std::vector<Reported> reported;  // [index]
  std::vector<Registered> registered;
};

/// Autograd calls it with the complete gradient of the parameter.
class GradientHooks::Hook final : public torch::autograd::FunctionPreHook {
 public:
  Hook(GradientReadyListener& listener, SparseGradients sparse, OfReplica& replica,
       std::size_t index, const HookedParameter& parameter)
      : listener_(listener),
        sparse_(sparse),
        replica_(replica),
        index_(index),
        variable_(parameter.variable),
        format_(parameter.memory_format) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& grads) override {
    const bool is_watched =
        replica_.pass != kNoPass && replica_.pass == torch::autograd::get_current_graph_task_id();
    const bool stays_sparse =
        sparse_ == SparseGradients::kKeepRows && comm::has_rows(grads.front());
    if (is_watched && grads.front().defined() && !stays_sparse) {
      OfReplica::Reported& reported = replica_.reported[index_];
      reported = {
          .gradient = grads.front().unsafeGetTensorImpl(),
          .values = in_parameter_layout(grads.front(), SparseGradients::kMakeDense, format_)};
      listener_.ready(replica_.replica, variable_, reported.values);
    }
    return grads;
  }

 private:
  GradientReadyListener& listener_;
  const SparseGradients sparse_;
  OfReplica& replica_;
  const std::size_t index_;
  const std::size_t variable_;
  const at::MemoryFormat format_;
};

GradientHooks::GradientHooks(GradientReadyListener& listener,
                             std::vector<std::vector<HookedParameter>> parameters,
                             SparseGradients sparse)
    : listener_(listener), sparse_(sparse) {
  for (auto& of_replica : parameters) {
    const auto replica = static_cast<int>(replicas_.size());
    replicas_.push_back(std::make_unique<OfReplica>());
    replicas_.back()->replica = replica;
    replicas_.back()->reported.resize(of_replica.size());
    replicas_.back()->parameters = std::move(of_replica);
  }
}

// These hooks run after those that a program registers on a tensor, which may still change the
// gradient. Autograd stores them by the number of an output, which is only a key: several
// optimizers of one parameter use different keys.
void GradientHooks::add_hooks(OfReplica& replica) const {
  for (std::size_t index = replica.registered.size(); index < replica.parameters.size(); ++index) {
    const HookedParameter& parameter = replica.parameters[index];
    auto node = torch::autograd::impl::grad_accumulator(parameter.parameter);
    std::size_t key = 1;
    while (node->retains_grad_hooks().contains(key)) ++key;
    node->add_retains_grad_hook(
        std::make_unique<Hook>(listener_, sparse_, replica, index, parameter), key);
    replica.registered.push_back({.node = std::move(node), .key = key});
  }
}

GradientHooks::~GradientHooks() {
  for (const auto& replica : replicas_) {
    for (const OfReplica::Registered& hook : replica->registered)
      hook.node->pop_retains_grad_hook(hook.key);
  }
}

// The hook of the loss runs first, and gets the pass's id before any parameter is reached. A nested
// pass has another id.
GradientHooks::Watch::Watch(GradientHooks& hooks, int replica, const at::Tensor& loss)
    : hooks_(hooks),
      replica_(replica),
      loss_(loss),
      loss_hook_(loss.register_hook(
          [of_replica =
               hooks.replicas_[static_cast<std::size_t>(replica)].get()](const at::Tensor&) {
            if (of_replica->pass == kNoPass)
              of_replica->pass = torch::autograd::get_current_graph_task_id();
          })),
      exceptions_(std::uncaught_exceptions()) {
  try {
    hooks.add_hooks(*hooks.replicas_[static_cast<std::size_t>(replica)]);
    hooks.listener_.begin(replica);
  } catch (...) {
    loss_.remove_hook(loss_hook_);
    throw;
  }
}

GradientHooks::Watch::~Watch() {
  OfReplica& of_replica = *hooks_.replicas_[static_cast<std::size_t>(replica_)];
  of_replica.pass = kNoPass;
  for (OfReplica::Reported& reported : of_replica.reported) reported = {};
  loss_.remove_hook(loss_hook_);
  if (std::uncaught_exceptions() > exceptions_) hooks_.listener_.cancel(replica_);
}

at::Tensor GradientHooks::Watch::reported(std::size_t index, const at::Tensor& gradient) const {
  const OfReplica::Reported& reported =
      hooks_.replicas_[static_cast<std::size_t>(replica_)]->reported[index];
  if (!reported.values.defined()) return {};
  if (gradient.unsafeGetTensorImpl() == reported.gradient) return reported.values;
  throw Error(ErrorCode::kInternal,
              "Backward returned another gradient than its hook got: set bytes_per_pack to 0, so "
              "that gradients are reduced after backward, and report this bug.");
}

}  // namespace brigade::distribute
