#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <string_view>

#include "brigade/distribute/cross_replica_call.h"
#include "brigade/distribute/optimizer/gradient_presence.h"
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

void mark_updated(const optim::OptimizerState& state, const std::vector<bool>& known, int replica) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] && !state.is_frozen(i)) state.variables()[i].mark_updated(replica);
  }
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
  Reducer(std::shared_ptr<comm::LocalGroup> group, const optim::OptimizerState& state,
          std::shared_ptr<const comm::CrossDeviceOps> ops)
      : replicas_(group->world_size()),
        destinations_(master_devices(state)),
        call_(std::move(group), replica_devices(state), destinations_),
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
class ReducingSynchronizer final : public GradientSynchronizer {
 public:
  ReducingSynchronizer(std::shared_ptr<comm::LocalGroup> group,
                       const std::shared_ptr<optim::OptimizerState>& state,
                       std::shared_ptr<const comm::CrossDeviceOps> ops,
                       std::unique_ptr<GradientSynchronizer> inner)
      : reducer_(std::move(group), *state, std::move(ops)), inner_(std::move(inner)) {}

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

 private:
  Row reduced(int replica, std::span<const at::Tensor> gradients, std::string_view call) {
    const at::NoGradGuard no_grad;
    reducer_.call().run(replica, {.name = call}, gradients, [&] {
      sums_.clear();  // frees the last step's sums first
      sums_ = reducer_.sums();
    });
    return sums_[sums_.size() == 1 ? 0 : static_cast<std::size_t>(replica)];
  }

  Reducer reducer_;
  const std::unique_ptr<GradientSynchronizer> inner_;
  std::vector<Row> sums_;  // [destination], written by replica 0 in the call
};

/// Adds gradients and updates on replica 0's thread.
class FirstReplicaSynchronizer final : public GradientSynchronizer {
 public:
  FirstReplicaSynchronizer(std::shared_ptr<comm::LocalGroup> group,
                           std::shared_ptr<optim::OptimizerState> state,
                           std::shared_ptr<const comm::CrossDeviceOps> ops)
      : state_(std::move(state)), reducer_(std::move(group), *state_, std::move(ops)) {}

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

  Row aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    reducer_.call().run(replica, {.name = "aggregate"}, gradients,
                        [&] { sums_ = reducer_.sums().front(); });
    Row own;
    for (const at::Tensor& sum : sums_) own.push_back(sum.defined() ? sum.clone() : sum);
    return own;
  }

 private:
  const std::shared_ptr<optim::OptimizerState> state_;
  Reducer reducer_;
  std::vector<bool> known_;  // written by replica 0 in the call
  Row sums_;                 // likewise
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

/// Wraps a synchronizer that updates the controller's memory: copies gradients to the controller
/// before the update, and refreshes the replicas' copies after it.
class ControllerSynchronizer final : public GradientSynchronizer {
 public:
  /// Whether `inner` needs local gradients on the controller, as it needs aggregated ones.
  enum class StageLocal { kNo, kYes };
  ControllerSynchronizer(std::shared_ptr<optim::OptimizerState> state,
                         std::unique_ptr<GradientSynchronizer> inner, StageLocal stage_local)
      : state_(std::move(state)),
        inner_(std::move(inner)),
        to_cpu_(state_->storages().front()->master(0).is_cpu()),
        stage_local_(stage_local),
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
    const bool stays = state == GradientState::kLocal && stage_local_ == StageLocal::kNo;
    if (!to_cpu_ || stays) return gradients;
    const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
    return staging_[static_cast<std::size_t>(replica)].copy_to_host(gradients);
  }

  const std::shared_ptr<optim::OptimizerState> state_;
  const std::unique_ptr<GradientSynchronizer> inner_;
  const bool to_cpu_;
  const StageLocal stage_local_;
  std::vector<HostStaging> staging_;  // [replica], each its own
};

std::unique_ptr<GradientSynchronizer> make_updater(
    std::shared_ptr<comm::LocalGroup> group, const std::shared_ptr<optim::OptimizerState>& state,
    std::shared_ptr<const comm::CrossDeviceOps> ops, ControllerWork work) {
  if (work == ControllerWork::kSharded) {
    auto sharded = make_sharded_synchronizer(group, state);
    if (!ops) return sharded;
    return make_reducing_synchronizer(std::move(group), state, std::move(ops), std::move(sharded));
  }
  if (!ops) ops = std::make_shared<comm::ReductionToOneDevice>();
  return std::make_unique<FirstReplicaSynchronizer>(std::move(group), state, std::move(ops));
}

}  // namespace

std::unique_ptr<GradientSynchronizer> make_reducing_synchronizer(
    std::shared_ptr<comm::LocalGroup> group, std::shared_ptr<optim::OptimizerState> state,
    std::shared_ptr<const comm::CrossDeviceOps> ops, std::unique_ptr<GradientSynchronizer> inner) {
  return std::make_unique<ReducingSynchronizer>(std::move(group), state, std::move(ops),
                                                std::move(inner));
}

std::unique_ptr<GradientSynchronizer> make_controller_synchronizer(
    std::shared_ptr<comm::LocalGroup> group, std::shared_ptr<optim::OptimizerState> state,
    std::shared_ptr<const comm::CrossDeviceOps> ops, std::optional<ControllerWork> work) {
  const bool on_cpu = state->storages().front()->master(0).is_cpu();
  const auto stage_local =
      ops ? ControllerSynchronizer::StageLocal::kNo : ControllerSynchronizer::StageLocal::kYes;
  auto updater = make_updater(
      std::move(group), state, std::move(ops),
      work.value_or(on_cpu ? ControllerWork::kSharded : ControllerWork::kFirstReplica));
  return std::make_unique<ControllerSynchronizer>(std::move(state), std::move(updater),
                                                  stage_local);
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
