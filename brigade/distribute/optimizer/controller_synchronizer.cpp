#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <string_view>

#include "brigade/distribute/cross_replica_call.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

using Row = std::vector<at::Tensor>;  // one gradient per variable

std::vector<c10::Device> replica_devices(const optim::OptimizerState& state) {
  const variables::Variable& variable = state.variables().front();
  std::vector<c10::Device> devices;
  for (int replica = 0; replica < variable.num_components(); ++replica)
    devices.push_back(variable.component(replica).device());
  return devices;
}

/// The devices of the updates: one per replica, or one for all.
std::vector<c10::Device> master_devices(const optim::OptimizerState& state) {
  const variables::VariableStorage& storage = *state.storages().front();
  std::vector<c10::Device> devices;
  for (int master = 0; master < storage.masters(); ++master)
    devices.push_back(storage.master(master).device());
  return devices;
}

Row moved(std::span<const at::Tensor> gradients, c10::Device device) {
  Row there;
  for (const at::Tensor& gradient : gradients)
    there.push_back(gradient.defined() ? gradient.to(device) : gradient);
  return there;
}

void apply_to_master(optim::OptimizerState& state, int master, const std::vector<bool>& known,
                     std::span<const at::Tensor> sums) {
  const comm::PhaseScope update(current_step_clock(), comm::StepPhase::kUpdate);
  const at::AutoDispatchBelowADInplaceOrView
      below;  // versions are bumped by hand, see mark_updated
  for (const optim::UpdateRun& run : state.runs(known)) state.apply_whole(master, run, sums);
}

/// Adds gradients on replica 0's thread, with cross-device ops.
class Reducer {
 public:
  Reducer(const SynchronizerContext& context, std::shared_ptr<const comm::CrossDeviceOps> ops)
      : replicas_(context.group->world_size()),
        destinations_(master_devices(*context.state)),
        call_(context.group, replica_devices(*context.state), destinations_),
        ops_(std::move(ops)) {}

  CrossReplicaCall& call() { return call_; }

  /// Every variable's sum: [destination][variable]. Within `call`.
  std::vector<Row> sums() const {
    std::vector<Row> values;
    for (std::size_t i = 0; i < call_.published(0).size(); ++i) {
      Row& value = values.emplace_back();
      for (int replica = 0; replica < replicas_; ++replica)
        value.push_back(call_.published(replica)[i]);
    }
    const auto reduced = ops_->batch_reduce(comm::ReduceOp::kSum, values, destinations_);
    std::vector<Row> rows(destinations_.size());
    for (const auto& results : reduced) {
      for (std::size_t d = 0; d < rows.size(); ++d) rows[d].push_back(results[d]);
    }
    return rows;
  }

 private:
  const int replicas_;
  const std::vector<c10::Device> destinations_;
  CrossReplicaCall call_;
  const std::shared_ptr<const comm::CrossDeviceOps> ops_;
};

/// Reduces with cross-device ops, and lets another synchronizer update.
class ReducingSynchronizer : public GradientSynchronizer {
 public:
  ReducingSynchronizer(const SynchronizerContext& context,
                       std::shared_ptr<const comm::CrossDeviceOps> ops,
                       std::unique_ptr<GradientSynchronizer> inner)
      : reducer_(context, std::move(ops)), inner_(std::move(inner)) {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    if (state == GradientState::kAggregated) return inner_->apply(replica, gradients, state);
    inner_->apply(replica, reduced(replica, gradients, "apply_gradients"),
                  GradientState::kAggregated);
  }

  Row aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const Row sums = reduced(replica, gradients, "aggregate");
    Row own;  // replicas may change theirs
    for (const at::Tensor& sum : sums) own.push_back(sum.defined() ? sum.clone() : sum);
    return own;
  }

 protected:
  Reducer reducer_;

 private:
  Row reduced(int replica, std::span<const at::Tensor> gradients, std::string_view call) {
    const at::NoGradGuard no_grad;
    reducer_.call().run(replica, {.name = call}, gradients, [&] {
      sums_.clear();  // frees the last step's sums first
      sums_ = reducer_.sums();
    });
    return sums_[sums_.size() == 1 ? 0 : static_cast<std::size_t>(replica)];
  }

  const std::unique_ptr<GradientSynchronizer> inner_;
  std::vector<Row> sums_;  // [destination], written by replica 0 in the call
};

/// Adds gradients and updates on replica 0's thread.
class FirstReplicaSynchronizer final : public ReducingSynchronizer {
 public:
  FirstReplicaSynchronizer(const SynchronizerContext& context,
                           std::shared_ptr<const comm::CrossDeviceOps> ops)
      : ReducingSynchronizer(context, std::move(ops), nullptr), state_(context.state) {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    const at::NoGradGuard no_grad;
    const bool local = state == GradientState::kLocal;
    const std::string_view call = local ? "apply_gradients" : "apply_gradients (aggregated)";
    reducer_.call().run(replica, {.name = call}, gradients, [&] {
      const Row sums = local ? reducer_.sums().front()
                             : moved(gradients, state_->storages().front()->master(0).device());
      known_ = present(sums);
      apply_to_master(*state_, 0, known_, sums);
      state_->advance(known_);
    });
    mark_updated(*state_, known_, replica);
  }

 private:
  const std::shared_ptr<optim::OptimizerState> state_;
  std::vector<bool> known_;  // written by replica 0 in the call
};

/// Copies a replica's gradients to the host, into memory that is kept from step to step.
class HostStaging {
 public:
  std::span<const at::Tensor> copy_to_host(std::span<const at::Tensor> gradients) {
    const auto far = std::find_if(gradients.begin(), gradients.end(),
                                  [](const at::Tensor& g) { return g.defined() && !g.is_cpu(); });
    if (far == gradients.end()) return gradients;
    memory_.resize(gradients.size());
    staged_.assign(gradients.size(), at::Tensor());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined()) staged_[i] = copy(gradients[i], memory_[i]);
    }
    const c10::impl::VirtualGuardImpl guard(far->device().type());
    guard.getStream(far->device()).synchronize();
    return staged_;
  }

 private:
  static at::Tensor copy(const at::Tensor& gradient, at::Tensor& memory) {
    if (!memory.defined()) {
      memory = at::empty(gradient.sizes(), gradient.options().device(at::kCPU).pinned_memory(true));
    }
    return memory.copy_(gradient, /*non_blocking=*/true);
  }

  Row staged_;
  Row memory_;
};

/// Adds gradients and updates in the controller's memory.
std::unique_ptr<GradientSynchronizer> make_updater(const SynchronizerContext& context,
                                                   std::shared_ptr<const comm::CrossDeviceOps> ops,
                                                   std::optional<ControllerWork> work) {
  const bool on_cpu = context.state->storages().front()->master(0).is_cpu();
  if (work.value_or(on_cpu ? ControllerWork::kSharded : ControllerWork::kFirstReplica) ==
      ControllerWork::kFirstReplica) {
    if (!ops) ops = std::make_shared<comm::ReductionToOneDevice>();
    return std::make_unique<FirstReplicaSynchronizer>(context, std::move(ops));
  }
  auto sharded = make_sharded_synchronizer(context);
  if (!ops) return sharded;
  return std::make_unique<ReducingSynchronizer>(context, std::move(ops), std::move(sharded));
}

/// Wraps a synchronizer that updates the controller's memory: copies gradients to the controller
/// before the update, and refreshes the replicas' copies after it.
class ControllerSynchronizer final : public GradientSynchronizer {
 public:
  ControllerSynchronizer(const SynchronizerContext& context,
                         const std::shared_ptr<const comm::CrossDeviceOps>& ops,
                         std::optional<ControllerWork> work)
      : state_(context.state),
        inner_(make_updater(context, ops, work)),
        to_cpu_(state_->storages().front()->master(0).is_cpu()),
        stages_local_(ops == nullptr),
        staging_(static_cast<std::size_t>(state_->variables().front().num_components())) {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    inner_->apply(replica, on_controller(replica, gradients, state), state);
    const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
    for (const auto& storage : state_->storages()) storage->refresh(replica);
  }

  Row aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    return moved(
        inner_->aggregate(replica, on_controller(replica, gradients, GradientState::kLocal)),
        state_->variables().front().component(replica).device());
  }

 private:
  std::span<const at::Tensor> on_controller(int replica, std::span<const at::Tensor> gradients,
                                            GradientState state) {
    const at::NoGradGuard no_grad;
    const bool stays = state == GradientState::kLocal && !stages_local_;
    if (!to_cpu_ || stays) return gradients;
    const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
    return staging_[static_cast<std::size_t>(replica)].copy_to_host(gradients);
  }

  const std::shared_ptr<optim::OptimizerState> state_;
  const std::unique_ptr<GradientSynchronizer> inner_;
  const bool to_cpu_;
  const bool stages_local_;           // ops take local gradients where they are
  std::vector<HostStaging> staging_;  // [replica], each its own
};

}  // namespace

SynchronizerFactory with_cross_device_ops(std::shared_ptr<const comm::CrossDeviceOps> ops,
                                          SynchronizerFactory inner) {
  if (!ops) return inner;
  return [ops = std::move(ops), inner = std::move(inner)](
             const SynchronizerContext& context) -> std::unique_ptr<GradientSynchronizer> {
    if (context.group->world_size() == 1) return inner(context);
    return std::make_unique<ReducingSynchronizer>(context, ops, inner(context));
  };
}

SynchronizerFactory controller_synchronizer(std::shared_ptr<const comm::CrossDeviceOps> ops,
                                            std::optional<ControllerWork> work) {
  return [ops = std::move(ops), work](const SynchronizerContext& context) {
    return std::make_unique<ControllerSynchronizer>(context, ops, work);
  };
}

void apply_everywhere(optim::OptimizerState& state, std::span<const at::Tensor> sums) {
  const at::NoGradGuard no_grad;
  const std::vector<bool> known = present(sums);
  const std::vector<c10::Device> masters = master_devices(state);
  for (std::size_t master = 0; master < masters.size(); ++master)
    apply_to_master(state, static_cast<int>(master), known, moved(sums, masters[master]));
  for (int replica = 0; replica < state.variables().front().num_components(); ++replica) {
    for (const auto& storage : state.storages()) storage->refresh(replica);
    mark_updated(state, known, replica);
  }
  state.advance(known);
}

}  // namespace brigade::distribute
