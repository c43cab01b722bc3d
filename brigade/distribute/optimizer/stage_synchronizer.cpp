#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/comm/step_progress.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/optimizer/stage_state.h"
#include "brigade/distribute/pipeline/stage_variables.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

constexpr int kNobody = -1;

// What a worker reports about a variable: whether it has a gradient, and whether it has one of a
// variable that another worker trains. Numbers that can be added over pipelines.
constexpr int kHasGradient = 1;
constexpr int kTrainedElsewhere = 1 << 16;

bool has_gradient(int flag) {
  return flag % kTrainedElsewhere != 0;
}
bool is_trained_elsewhere(int flag) {
  return flag >= kTrainedElsewhere;
}

at::Tensor flags_of(const std::vector<bool>& known, const std::vector<bool>& trained_elsewhere) {
  const at::Tensor flags = at::empty({static_cast<std::int64_t>(known.size())}, at::kInt);
  int* const flag = flags.mutable_data_ptr<int>();
  for (std::size_t i = 0; i < known.size(); ++i)
    flag[i] = (known[i] ? kHasGradient : 0) + (trained_elsewhere[i] ? kTrainedElsewhere : 0);
  return flags;
}

/// Before each update the processes exchange which variables they have gradients of. So none of
/// them updates if the step has failed in another one, and all know which worker trains which
/// variable.
class StageSynchronizer final : public GradientSynchronizer {
 public:
  StageSynchronizer(const SynchronizerContext& context, const StageSynchronizerOptions& options)
      : context_(with_workers(context, options.workers.replicas)),
        group_(context.group),
        workers_(options.workers),
        has_all_stages_(options.has_all_stages),
        stage_variables_(options.variables),
        state_(context.state),
        purpose_{.use = comm::CallPurpose::Use::kGradients, .optimizer = context.optimizer},
        values_(workers_.pipeline, context.state, context.store),
        owners_(context.state->variables().size(), kNobody),
        local_communicators_(comm::make_local_communicators(group_)),
        local_(make_local()) {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    if (state == GradientState::kAggregated) return local_->apply(replica, gradients, state);
    agree(replica, gradients);
    (over_pipelines_ ? *over_pipelines_ : *local_).apply(replica, gradients, state);
    if (!shared_.empty()) send_shared_values(replica);
  }

  /// Each process has the sums of its own stages (`Optimizer::flush`), or all have all.
  bool apply_outside(std::span<const at::Tensor> sums) override {
    const at::NoGradGuard no_grad;
    apply_everywhere(*state_, sums);
    const std::vector<at::Tensor> all = gather_flags(present(sums));
    trained_by_.assign(sums.size(), kNobody);
    std::vector<bool> is_shared(sums.size(), false);
    for (int worker = static_cast<int>(all.size()) - 1; worker >= 0; --worker) {
      const int* const theirs = all[static_cast<std::size_t>(worker)].const_data_ptr<int>();
      for (std::size_t i = 0; i < sums.size(); ++i) {
        if (is_trained_elsewhere(theirs[i])) is_shared[i] = true;
        if (has_gradient(theirs[i])) trained_by_[i] = worker;
      }
    }
    keep_shared(is_shared);
    exchange_shared_values();
    for (int replica = 0; replica < group_->world_size(); ++replica) mark_shared(replica);
    return true;
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    agree(replica, gradients);
    std::vector<at::Tensor> sums =
        (over_pipelines_ ? *over_pipelines_ : *local_).aggregate(replica, gradients);
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
  std::unique_ptr<GradientSynchronizer> make_local() const {
    SynchronizerContext local = with_workers(context_, nullptr);
    if (group_->world_size() > 1) return make_sharded_synchronizer(local);
    local.communicators = {local_communicators_.front().get()};
    return make_replica_synchronizer(local);
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
    if (replica == 0) exchange_known(known);
    barrier(replica);
  }

  /// [worker of the pipeline]: the flags of its variables.
  std::vector<at::Tensor> gather_flags(const std::vector<bool>& known) {
    const comm::PurposeScope purpose(progress(), purpose_);
    const at::Tensor flags = flags_of(known, trained_elsewhere());
    if (workers_.replicas)
      workers_.replicas->communicator->all_reduce({&flags, 1}, comm::ReduceOp::kSum)->wait();
    return workers_.pipeline->communicator->all_gather(flags);
  }

  void exchange_known(const std::vector<bool>& known) {
    const std::vector<at::Tensor> all = gather_flags(known);
    const bool is_whole = has_all_stages();
    trained_by_.assign(known.size(), kNobody);
    std::vector<bool> is_shared(known.size(), false);
    for (std::size_t worker = 0; worker < all.size(); ++worker) {
      if (is_whole && static_cast<int>(worker) != part()) continue;
      const int* const theirs = all[worker].const_data_ptr<int>();
      for (std::size_t i = 0; i < known.size(); ++i) {
        if (is_trained_elsewhere(theirs[i])) is_shared[i] = true;
        if (!has_gradient(theirs[i])) continue;
        check_has_one(i, static_cast<int>(worker));
        trained_by_[i] = static_cast<int>(worker);
      }
    }
    keep_shared(is_shared);
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (trained_by_[i] != kNobody && !is_whole) owners_[i] = trained_by_[i];
    }
    if (workers_.replicas) prepare_reduction();
  }

  /// [variable]: whether a micro-batch of this process had a gradient that another one trains.
  std::vector<bool> trained_elsewhere() const {
    const std::set<std::string> names = stage_variables_->take_trained_elsewhere();
    std::vector<bool> trained_elsewhere;
    for (const variables::Variable& variable : state_->variables())
      trained_elsewhere.push_back(names.contains(variable.name()));
    return trained_elsewhere;
  }

  void keep_shared(const std::vector<bool>& is_shared) {
    shared_.clear();
    for (std::size_t i = 0; i < is_shared.size(); ++i)
      if (is_shared[i] && trained_by_[i] != kNobody) shared_.push_back(i);
  }

  /// The worker that trains a shared variable sends its new value to all others of the pipeline.
  void send_shared_values(int replica) {
    const at::NoGradGuard no_grad;
    const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
    barrier(replica);  // all have updated
    if (replica == 0) exchange_shared_values();
    barrier(replica);
    mark_shared(replica);
  }

  void mark_shared(int replica) const {
    for (const std::size_t i : shared_)
      if (trained_by_[i] != part()) state_->variables()[i].mark_updated(replica);
  }

  void exchange_shared_values() {
    const comm::PurposeScope purpose(progress(), purpose_);
    std::map<int, std::vector<std::size_t>> sent_by;
    for (const std::size_t i : shared_) sent_by[trained_by_[i]].push_back(i);
    for (const auto& [owner, sent] : sent_by) {
      std::vector<at::Tensor> values;
      for (const std::size_t i : sent) {
        const at::Tensor& value = state_->variables()[i].component(0);
        values.push_back(owner == part() ? value.detach().contiguous()
                                         : at::empty(value.sizes(), value.options()));
      }
      workers_.pipeline->communicator->broadcast(values, owner)->wait();
      if (owner == part()) continue;
      // Versions are bumped by hand, see mark_updated.
      const at::AutoDispatchBelowADInplaceOrView below;
      for (std::size_t k = 0; k < sent.size(); ++k)
        state_->variables()[sent[k]].component(0).copy_(values[k]);
    }
  }

  /// The buffers that are sent to the other pipelines have room for the variables of the local
  /// stages only, which are known by their gradients. All processes that make them have seen the
  /// same gradients.
  void prepare_reduction() {
    std::vector<bool>& is_trained = context_.is_trained;
    bool is_ready = over_pipelines_ != nullptr;
    is_trained.resize(trained_by_.size(), false);
    for (std::size_t i = 0; i < is_trained.size(); ++i) {
      const bool is_local =
          trained_by_[i] == part() || (is_trained[i] && trained_by_[i] == kNobody);
      is_ready = is_ready && is_local == is_trained[i];
      is_trained[i] = is_local;
    }
    if (is_ready) return;
    over_pipelines_.reset();
    over_pipelines_ = make_worker_synchronizer(context_);
  }

  void check_has_one(std::size_t variable, int worker) const {
    if (trained_by_[variable] == kNobody) return;
    throw Error(ErrorCode::kUnimplemented, "The variable '", state_->variables()[variable].name(),
                "' has gradients in worker ", trained_by_[variable], " and in worker ", worker,
                " of a pipeline: the loss uses it, and no layer of the model does. "
                "Use it in a layer of the model, so that one worker trains it.");
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
  const std::shared_ptr<StageVariables> stage_variables_;
  const std::shared_ptr<optim::OptimizerState> state_;
  const comm::CallPurpose purpose_;
  StageState values_;
  std::vector<int> owners_;            // [variable]: the worker that trains it, as far as known
  std::vector<int> trained_by_;        // in this step; replica 0 writes it
  std::vector<std::size_t> shared_;    // that several workers need; the same
  std::vector<at::Tensor> of_others_;  // sums of this step; replica 0 writes them before a barrier
  bool is_true_ = false;               // the same
  const std::vector<std::unique_ptr<comm::Communicator>> local_communicators_;  // for `local_`
  const std::unique_ptr<GradientSynchronizer> local_;
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
