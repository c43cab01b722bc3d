#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/distribute/strategy.h"
#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {

/// For tests: stands for the parameter servers of a job. Its workers are strategies of one process,
/// which share the variables here and no collectives. Each update subtracts `rate` times the
/// gradients of one worker.
///
/// Thread-safety: the workers make their steps one after the other.
struct SharedJob {
  struct State {
    at::Tensor value;
    std::vector<at::Tensor> slots;
  };
  std::map<std::string, State> states;  ///< by variable; empty until the chief has stored them
  std::int64_t step = 0;
  double rate = 1.0;
  double loss_weight = 1.0;
  bool is_running = false;  ///< the chief has started it: its values are not stored any more
  int begun_steps = 0;
  std::function<void()> on_begin_step = {};  ///< called first in each
  std::int64_t updates_of_others = 0;        ///< come before each update, and change no values
  std::vector<double> learning_rates = {};   ///< of all calls of `set_learning_rate`
};

/// For tests: the synchronizer of a worker of a `SharedJob`, for replicas that share the variables'
/// memory.
class SharedJobSynchronizer final : public GradientSynchronizer {
 public:
  SharedJobSynchronizer(const SynchronizerContext& context, SharedJob& job, bool is_chief)
      : state_(context.state),
        group_(context.group),
        local_(make_replica_synchronizer(context)),
        job_(job),
        is_chief_(is_chief) {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> sums(gradients.begin(), gradients.end());
    if (state == GradientState::kLocal && group_->world_size() > 1)
      sums = aggregate(replica, gradients);
    group_->exchange(replica, {.name = "apply"}, {}, [&] {
      if (replica == 0) push(sums);
    });
    mark(replica);
  }
  bool apply_outside(std::span<const at::Tensor> sums) override {
    const at::NoGradGuard no_grad;
    push(sums);
    mark_all();
    return true;
  }
  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    return local_->aggregate(replica, gradients);
  }
  double loss_weight() const override { return job_.loss_weight; }

  void begin_step() override {
    ++job_.begun_steps;
    if (job_.on_begin_step) job_.on_begin_step();
    start_job();
    fetch_state();
  }
  void start_job() override {
    if (!is_chief_ || job_.is_running) return;
    store_state();
    job_.is_running = true;
  }
  void fetch_state() override {
    if (is_chief_ && job_.states.empty()) return;  // this worker's state will be the job's
    check_state(!job_.states.empty(), "The chief has not stored the variables.");
    const at::NoGradGuard no_grad;
    read();
    for (std::size_t i = 0; i < state_->variables().size(); ++i) {
      const SharedJob::State& state = job_.states.at(state_->variables()[i].name());
      for (std::size_t slot = 0; slot < state.slots.size(); ++slot)
        state_->slot(i, slot, 0).copy_(state.slots[slot]);
    }
    mark_all();
  }
  void store_state() override {
    if (!is_chief_ || job_.is_running) return fetch_state();
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < state_->variables().size(); ++i) {
      const variables::Variable& variable = state_->variables()[i];
      SharedJob::State state{.value = variable.component(0).detach().clone(), .slots = {}};
      for (std::size_t slot = 0; slot < state_->rule().slots().size(); ++slot)
        state.slots.push_back(state_->slot(i, slot, 0).clone());
      job_.states[variable.name()] = std::move(state);
    }
    job_.step = step_;
  }
  std::optional<std::int64_t> global_step() const override { return step_; }
  void set_global_step(std::int64_t step) override {
    if (is_chief_ && !job_.is_running) step_ = step;
  }
  const UpdateStaleness* staleness() const override { return &staleness_; }
  void set_learning_rate(double rate) override { job_.learning_rates.push_back(rate); }

 private:
  void push(const std::span<const at::Tensor> sums) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const variables::Variable& variable = state_->variables()[i];
      if (sums[i].defined())
        job_.states.at(variable.name()).value.sub_(sums[i].view(variable.shape()), job_.rate);
    }
    job_.step += job_.updates_of_others;
    staleness_.count(job_.step - step_);
    ++job_.step;
    read();
  }
  void read() {
    const at::AutoDispatchBelowADInplaceOrView below;  // versions are bumped by `mark`
    for (std::size_t i = 0; i < state_->variables().size(); ++i) {
      const variables::Variable& variable = state_->variables()[i];
      variable.component(0).copy_(job_.states.at(variable.name()).value);
      state_->set_step(i, job_.step);
    }
    step_ = job_.step;
  }
  void mark(int replica) {
    for (const variables::Variable& variable : state_->variables()) variable.mark_updated(replica);
  }
  void mark_all() {
    for (int replica = 0; replica < group_->world_size(); ++replica) mark(replica);
  }

  const std::shared_ptr<optim::OptimizerState> state_;
  const std::shared_ptr<comm::LocalGroup> group_;
  const std::unique_ptr<GradientSynchronizer> local_;  // only its `aggregate` is used
  SharedJob& job_;
  const bool is_chief_;
  std::int64_t step_ = 0;  // of the job, when its values were read
  UpdateStaleness staleness_;
};

/// For tests: worker `worker.index` of a `SharedJob`, with `replicas` logical CPUs. The job must
/// outlive it.
class SharedJobStrategy : public Strategy {
 public:
  SharedJobStrategy(SharedJob& job, WorkerIndex worker, int replicas = 1, std::uint64_t seed = 0)
      : Strategy(parts(job, worker, replicas, seed)) {}

 private:
  static StrategyParts parts(SharedJob& job, WorkerIndex worker, int replicas, std::uint64_t seed) {
    StrategyParts parts = mirrored_parts(
        "shared_job", choose_devices(cpus(replicas).devices, {.allow_oversubscription = true}));
    parts.synchronizer = [&job, worker](const SynchronizerContext& context) {
      return std::make_unique<SharedJobSynchronizer>(context, job, worker.index == 0);
    };
    parts.worker = worker;
    parts.seed = seed;
    parts.timeout = std::chrono::seconds(60);
    return parts;
  }
};

}  // namespace brigade::distribute
