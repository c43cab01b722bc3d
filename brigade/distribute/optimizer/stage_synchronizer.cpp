#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/step_progress.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/optimizer/stage_state.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

constexpr int kNobody = -1;

/// Before each update the processes tell one another which variables they have gradients of. So
/// none of them updates if another one's step has failed, and all know who trains what.
class StageSynchronizer final : public GradientSynchronizer {
 public:
  explicit StageSynchronizer(const SynchronizerContext& context)
      : group_(context.group),
        workers_(context.workers),
        state_(context.state),
        purpose_{.use = comm::CallPurpose::Use::kGradients, .optimizer = context.optimizer},
        values_(workers_, context.state, context.store),
        owners_(context.state->variables().size(), kNobody),
        inner_(make_inner(context)) {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    if (state == GradientState::kLocal) agree(replica, gradients);
    inner_->apply(replica, gradients, state);
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    agree(replica, gradients);
    std::vector<at::Tensor> sums = inner_->aggregate(replica, gradients);
    if (replica == 0) exchange_sums(sums);
    barrier(replica);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!sums[i].defined() && of_others_[i].defined()) sums[i] = of_others_[i].clone();
    }
    return sums;
  }

  const WorkerGroup* workers() const override { return workers_.get(); }
  void fetch_state() override { values_.exchange(owners_); }
  void begin_step() override { values_.begin(); }

 private:
  static std::unique_ptr<GradientSynchronizer> make_inner(const SynchronizerContext& context) {
    SynchronizerContext here = context;
    here.workers = nullptr;
    return context.group->world_size() > 1 ? make_sharded_synchronizer(here)
                                           : make_replica_synchronizer(here);
  }

  /// A collective of all replicas of all processes.
  void agree(int replica, std::span<const at::Tensor> gradients) {
    const at::NoGradGuard no_grad;
    const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
    if (group_->world_size() == 1) return exchange_known(present(gradients));
    std::vector<bool> known(gradients.size(), false);
    group_->exchange(replica, {.name = "apply_gradients (stages)"}, gradients, [&] {
      if (replica != 0) return;
      for (int rank = 0; rank < group_->world_size(); ++rank)
        merge_present(known, group_->published(rank));
    });
    if (replica == 0) exchange_known(known);
    barrier(replica);
  }

  void exchange_known(const std::vector<bool>& known) {
    const comm::PurposeScope purpose(&workers_->communicator->progress(), purpose_);
    const at::Tensor flags = at::empty({static_cast<std::int64_t>(known.size())}, at::kInt);
    int* const flag = flags.mutable_data_ptr<int>();
    for (std::size_t i = 0; i < known.size(); ++i) flag[i] = known[i] ? 1 : 0;
    const std::vector<at::Tensor> all = workers_->communicator->all_gather(flags);
    trained_by_.assign(known.size(), kNobody);
    for (std::size_t worker = 0; worker < all.size(); ++worker) {
      const int* const theirs = all[worker].const_data_ptr<int>();
      for (std::size_t i = 0; i < known.size(); ++i) {
        if (theirs[i] == 0) continue;
        check_has_one(i, static_cast<int>(worker));
        trained_by_[i] = static_cast<int>(worker);
      }
    }
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (trained_by_[i] != kNobody) owners_[i] = trained_by_[i];
    }
  }

  void check_has_one(std::size_t variable, int worker) const {
    if (trained_by_[variable] == kNobody) return;
    throw Error(ErrorCode::kUnimplemented,
                base::str_cat("The variable '", state_->variables()[variable].name(),
                              "' has gradients in worker ", trained_by_[variable],
                              " and in worker ", worker,
                              ": tied weights, and penalties of weights, whose stages are in "
                              "several workers are not built. Cut the pipeline so that one worker "
                              "has all layers that use it."));
  }

  /// Sends each sum from the process that has it to all others. Called by replica 0.
  void exchange_sums(std::span<const at::Tensor> sums) {
    const comm::PurposeScope purpose(&workers_->communicator->progress(), purpose_);
    of_others_.assign(sums.size(), at::Tensor());
    for (int worker = 0; worker < workers_->count(); ++worker) {
      std::vector<at::Tensor> sent;
      for (std::size_t i = 0; i < sums.size(); ++i) {
        if (trained_by_[i] != worker) continue;
        if (worker != workers_->index()) of_others_[i] = zeros_for(state_->variables()[i], 0);
        sent.push_back(worker == workers_->index() ? sums[i] : of_others_[i]);
      }
      if (!sent.empty()) workers_->communicator->broadcast(sent, worker)->wait();
    }
  }

  void barrier(int replica) {
    if (group_->world_size() > 1) group_->barrier(replica);
  }

  const std::shared_ptr<comm::LocalGroup> group_;
  const std::shared_ptr<const WorkerGroup> workers_;
  const std::shared_ptr<optim::OptimizerState> state_;
  const comm::CallPurpose purpose_;
  StageState values_;
  std::vector<int> owners_;            // [variable]: the worker that trains it, as far as known
  std::vector<int> trained_by_;        // in this step; replica 0 writes it
  std::vector<at::Tensor> of_others_;  // sums of this step; replica 0 writes them before a barrier
  const std::unique_ptr<GradientSynchronizer> inner_;
};

}  // namespace

std::unique_ptr<GradientSynchronizer> make_stage_synchronizer(const SynchronizerContext& context) {
  return std::make_unique<StageSynchronizer>(context);
}

}  // namespace brigade::distribute
