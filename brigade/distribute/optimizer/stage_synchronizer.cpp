#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/comm/step_progress.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/optimizer/stage_state.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

constexpr int kNobody = -1;

at::Tensor flags_of(const std::vector<bool>& known) {
  const at::Tensor flags = at::empty({static_cast<std::int64_t>(known.size())}, at::kInt);
  int* const flag = flags.mutable_data_ptr<int>();
  for (std::size_t i = 0; i < known.size(); ++i) flag[i] = known[i] ? 1 : 0;
  return flags;
}

/// Before each update the processes tell one another which variables they have gradients of. So
/// none of them updates if another one's step has failed, and all know who trains what.
class StageSynchronizer final : public GradientSynchronizer {
 public:
  StageSynchronizer(const SynchronizerContext& context, const StageSynchronizerOptions& options)
      : context_(with_workers(context, options.workers.replicas)),
        group_(context.group),
        workers_(options.workers),
        has_all_stages_(options.has_all_stages),
        state_(context.state),
        purpose_{.use = comm::CallPurpose::Use::kGradients, .optimizer = context.optimizer},
        values_(workers_.pipeline, context.state, context.store),
        owners_(context.state->variables().size(), kNobody),
        local_communicators_(comm::make_local_communicators(group_)),
        here_(make_here()) {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    if (state == GradientState::kAggregated) return here_->apply(replica, gradients, state);
    agree(replica, gradients);
    (over_pipelines_ ? *over_pipelines_ : *here_).apply(replica, gradients, state);
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    agree(replica, gradients);
    std::vector<at::Tensor> sums =
        (over_pipelines_ ? *over_pipelines_ : *here_).aggregate(replica, gradients);
    if (has_all_stages()) return sums;
    if (replica == 0) exchange_sums(sums);
    barrier(replica);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!sums[i].defined() && of_others_[i].defined()) sums[i] = of_others_[i].clone();
    }
    return sums;
  }

  const WorkerGroup* workers() const override { return workers_.replicas.get(); }
  comm::StepProgress* progress() const override { return &workers_.all->communicator->progress(); }
  bool is_true_for_any(int replica, bool own) override {
    if (replica == 0) {
      is_true_ = comm::all_reduce_number(*workers_.pipeline->communicator, own ? 1 : 0,
                                         comm::ReduceOp::kMax) != 0;
    }
    barrier(replica);
    return is_true_;
  }

  void fetch_state() override { values_.exchange(owners_); }
  void fetch_averages(const optim::ExponentialMovingAverage& averages) override {
    values_.exchange(averages, owners_);
  }
  void begin_step() override {
    if (has_all_stages()) return values_.begin_again();
    values_.begin();
  }
  StepOutcome end_step(StepOutcome replicas) override {
    return over_pipelines_ ? over_pipelines_->end_step(replicas) : replicas;
  }

 private:
  static SynchronizerContext with_workers(SynchronizerContext context,
                                          std::shared_ptr<const WorkerGroup> workers) {
    context.workers = std::move(workers);
    return context;
  }
  std::unique_ptr<GradientSynchronizer> make_here() const {
    SynchronizerContext here = with_workers(context_, nullptr);
    if (group_->world_size() > 1) return make_sharded_synchronizer(here);
    here.communicators = {local_communicators_.front().get()};
    return make_replica_synchronizer(here);
  }

  bool has_all_stages() const { return has_all_stages_ && has_all_stages_(); }
  int part() const { return workers_.part(); }

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
    if (replica == 0) exchange_known(std::move(known));
    barrier(replica);
  }

  void exchange_known(std::vector<bool> known) {
    const comm::PurposeScope purpose(progress(), purpose_);
    if (workers_.replicas) known = comm::all_reduce_flags(*workers_.replicas->communicator, known);
    const std::vector<at::Tensor> all =
        workers_.pipeline->communicator->all_gather(flags_of(known));
    const bool is_whole = has_all_stages();
    trained_by_.assign(known.size(), kNobody);
    for (std::size_t worker = 0; worker < all.size(); ++worker) {
      if (is_whole && static_cast<int>(worker) != part()) continue;
      const int* const theirs = all[worker].const_data_ptr<int>();
      for (std::size_t i = 0; i < known.size(); ++i) {
        if (theirs[i] == 0) continue;
        check_has_one(i, static_cast<int>(worker));
        trained_by_[i] = static_cast<int>(worker);
      }
    }
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (trained_by_[i] != kNobody && !is_whole) owners_[i] = trained_by_[i];
    }
    if (workers_.replicas) prepare_reduction();
  }

  /// What is sent to the other pipelines has room for the variables of the own stages alone, which
  /// are known by their gradients. All processes that make it have seen the same.
  void prepare_reduction() {
    std::vector<bool>& is_trained = context_.is_trained;
    bool is_ready = over_pipelines_ != nullptr;
    is_trained.resize(trained_by_.size(), false);
    for (std::size_t i = 0; i < is_trained.size(); ++i) {
      const bool is_here = trained_by_[i] == part() || (is_trained[i] && trained_by_[i] == kNobody);
      is_ready = is_ready && is_here == is_trained[i];
      is_trained[i] = is_here;
    }
    if (is_ready) return;
    over_pipelines_.reset();
    over_pipelines_ = make_worker_synchronizer(context_);
  }

  void check_has_one(std::size_t variable, int worker) const {
    if (trained_by_[variable] == kNobody) return;
    throw Error(ErrorCode::kUnimplemented,
                base::str_cat("The variable '", state_->variables()[variable].name(),
                              "' has gradients in worker ", trained_by_[variable],
                              " and in worker ", worker,
                              " of a pipeline: tied weights, and penalties of weights, whose "
                              "stages are in several workers are not built. Cut the pipeline so "
                              "that one worker has all layers that use it; for a penalty, use the "
                              "optimizer's weight decay."));
  }

  /// Sends each sum from the process that has it to all others of the pipeline. Called by replica
  /// 0.
  void exchange_sums(std::span<const at::Tensor> sums) {
    const WorkerGroup& pipeline = *workers_.pipeline;
    const comm::PurposeScope purpose(progress(), purpose_);
    of_others_.assign(sums.size(), at::Tensor());
    for (int worker = 0; worker < pipeline.count(); ++worker) {
      std::vector<at::Tensor> sent;
      for (std::size_t i = 0; i < sums.size(); ++i) {
        if (trained_by_[i] != worker) continue;
        if (worker != pipeline.index()) of_others_[i] = zeros_for(state_->variables()[i], 0);
        sent.push_back(worker == pipeline.index() ? sums[i] : of_others_[i]);
      }
      if (!sent.empty()) pipeline.communicator->broadcast(sent, worker)->wait();
    }
  }

  void barrier(int replica) {
    if (group_->world_size() > 1) group_->barrier(replica);
  }

  SynchronizerContext context_;  // of `over_pipelines_`
  const std::shared_ptr<comm::LocalGroup> group_;
  const PipelineWorkers workers_;
  const std::function<bool()> has_all_stages_;
  const std::shared_ptr<optim::OptimizerState> state_;
  const comm::CallPurpose purpose_;
  StageState values_;
  std::vector<int> owners_;            // [variable]: the worker that trains it, as far as known
  std::vector<int> trained_by_;        // in this step; replica 0 writes it
  std::vector<at::Tensor> of_others_;  // sums of this step; replica 0 writes them before a barrier
  bool is_true_ = false;               // the same
  const std::vector<std::unique_ptr<comm::Communicator>> local_communicators_;  // for `here_`
  const std::unique_ptr<GradientSynchronizer> here_;
  /// With the same stages of the other pipelines. Replica 0 makes it before a barrier; null if
  /// there are none.
  std::unique_ptr<GradientSynchronizer> over_pipelines_;
};

}  // namespace

SynchronizerFactory stage_synchronizer(const StageSynchronizerOptions& options) {
  return [options](const SynchronizerContext& context) {
    return std::make_unique<StageSynchronizer>(context, options);
  };
}

}  // namespace brigade::distribute
