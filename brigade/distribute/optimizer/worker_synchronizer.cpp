#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <atomic>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/distribute/optimizer/bucket_size_tuner.h"
#include "brigade/distribute/optimizer/gradient_buckets.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

/// A step works like this. During backward, replicas deliver gradients as they are completed
/// (`ready`). The last replica to deliver a variable adds all replicas' gradients of it, and passes
/// complete buckets to the reducer. When all replicas apply, they add the remaining gradients, each
/// replica one shard; then replica 0 stops the reducer and reduces the remaining buckets, of which
/// the last contains the presence numbers.
///
/// So buckets are reduced in order by one thread at a time, and nothing else uses the processes'
/// communicator between the first bucket and the last: a replica whose backward contains
/// collectives delivers nothing during backward, so no bucket is complete before its backward has
/// ended.
class WorkerSynchronizer final : public GradientSynchronizer, public GradientReadyListener {
 public:
  explicit WorkerSynchronizer(const SynchronizerContext& context)
      : group_(context.group),
        workers_(context.workers),
        optimizer_(context.optimizer),
        buffers_(*context.state, workers_->communicator, workers_->layout,
                 workers_->bytes_per_pack.value_or(0), context.is_trained),
        tuner_(workers_->bytes_per_pack ? std::vector{*workers_->bytes_per_pack}
                                        : BucketSizeTuner::sizes_for(buffers_.bytes())),
        progress_(context.notifying_replicas > 0 ? context.notifying_replicas
                                                 : group_->world_size()),
        parts_(context.state->variables().size(),
               std::vector<at::Tensor>(static_cast<std::size_t>(group_->world_size()))),
        values_(static_cast<std::size_t>(group_->world_size())),
        reducer_(
            buffers_.num_buckets() > 1 || !tuner_.is_settled()
                ? std::make_unique<GradientReducer>([this](std::size_t bucket) { reduce(bucket); })
                : nullptr),
        local_communicators_(comm::make_local_communicators(group_)),
        inner_(group_->world_size() > 1
                   ? make_sharded_synchronizer({.state = context.state,
                                                .group = group_,
                                                .communicators = context.communicators})
                   : make_replica_synchronizer(
                         {.state = context.state,
                          .group = group_,
                          .communicators = {local_communicators_.front().get()}})) {
    prepare();
  }

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    if (state == GradientState::kAggregated) return inner_->apply(replica, gradients, state);
    inner_->apply(replica, reduce_gradients(replica, gradients), GradientState::kAggregated);
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    return copies_of_sums(replica, reduce_gradients(replica, gradients));
  }

  /// Not if it would be rounded, which is meant for gradients.
  bool can_sum(at::ScalarType dtype, std::int64_t numel) const override {
    return workers_->communication.wire == comm::WireDtype::kFull &&
           buffers_.has_room_for(dtype, numel);
  }

  at::Tensor apply_with(int replica, std::span<const at::Tensor> gradients,
                        const at::Tensor& value) override {
    const std::vector<at::Tensor> sums = reduce_gradients(replica, gradients, value);
    at::Tensor sum_of_values = buffers_.sum_of_values(value);
    inner_->apply(replica, sums, GradientState::kAggregated);
    return sum_of_values;
  }

  std::pair<std::vector<at::Tensor>, at::Tensor> aggregate_with(
      int replica, std::span<const at::Tensor> gradients, const at::Tensor& value) override {
    std::vector<at::Tensor> sums = reduce_gradients(replica, gradients, value);
    at::Tensor sum_of_values = buffers_.sum_of_values(value);
    return {copies_of_sums(replica, std::move(sums)), std::move(sum_of_values)};
  }

  const WorkerGroup* workers() const override { return workers_.get(); }
  GradientReadyListener* ready_listener() override { return reducer_ ? this : nullptr; }

  bool is_enabled() const override { return buffers_.num_buckets() > 1; }

  void begin(int /*replica*/) override {
    if (group_->world_size() == 1) check_is_first_pass();
  }

  void ready(int replica, std::size_t variable, const at::Tensor& gradient) override {
    std::vector<at::Tensor>& parts = parts_[variable];
    parts[static_cast<std::size_t>(replica)] = gradient;
    if (!progress_.deliver(variable)) return;
    {
      const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
      buffers_.fill_variable(variable, parts);
      for (at::Tensor& part : parts) part.reset();
    }
    // The last bucket also has what is known after backward: the presence numbers and values.
    const auto bucket = progress_.filled(variable);
    if (bucket && *bucket + 1 < buffers_.num_buckets()) reducer_->ready(*bucket);
  }

  void cancel(int /*replica*/) noexcept override { give_up(); }

  StepOutcome end_step(StepOutcome replicas) override {
    const StepOutcome outcome = has_failed_ ? StepOutcome::kFailed : replicas;
    if (outcome == StepOutcome::kFailed) {
      stop_reducer();
      prepare();
    }
    has_failed_ = false;
    return outcome;
  }

 private:
  /// The next step reuses the buffers.
  std::vector<at::Tensor> copies_of_sums(int replica, std::vector<at::Tensor> sums) {
    const at::NoGradGuard no_grad;
    for (at::Tensor& sum : sums) {
      if (sum.defined()) sum = sum.clone();
    }
    if (group_->world_size() > 1) group_->barrier(replica);  // all have read
    return sums;
  }

  /// `value`, if any, is added up as well, into the buffers.
  std::vector<at::Tensor> reduce_gradients(int replica, std::span<const at::Tensor> gradients,
                                           const at::Tensor& value = {}) {
    const at::NoGradGuard no_grad;
    const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
    try {
      values_[static_cast<std::size_t>(replica)] = value;
      add_local(replica, gradients);
      if (replica == 0) reduce_rest();
      if (group_->world_size() > 1) group_->barrier(replica);
    } catch (...) {
      give_up();
      throw;
    }
    return buffers_.sums();
  }

  /// Adds this process's gradients into the buffers, except those that were filled in during
  /// backward.
  void add_local(int replica, std::span<const at::Tensor> gradients) {
    if (group_->world_size() == 1) {
      check_is_first_pass();
      buffers_.fill({&gradients, 1}, 0, 1, progress_.is_filled());
      return buffers_.fill_values(values_);
    }
    group_->exchange(replica, {.name = "apply_gradients"}, gradients, [&] {
      std::vector<std::span<const at::Tensor>> parts;
      for (int rank = 0; rank < group_->world_size(); ++rank)
        parts.push_back(group_->published(rank));
      check_is_first_pass();
      buffers_.fill(parts, replica, group_->world_size(), progress_.is_filled());
      if (replica == 0) buffers_.fill_values(values_);
    });
  }

  /// Reduces a bucket between the processes.
  void reduce(std::size_t bucket) {
    const comm::PurposeScope purpose(&workers_->communicator->progress(),
                                     {.use = comm::CallPurpose::Use::kGradients,
                                      .optimizer = optimizer_,
                                      .bucket = static_cast<std::int32_t>(bucket)});
    buffers_.reduce(bucket);
  }

  /// Called by replica 0, while the others wait for it.
  void reduce_rest() {
    for (std::size_t bucket = reducer_ ? reducer_->stop() : 0; bucket < buffers_.num_buckets();
         ++bucket)
      reduce(bucket);
    if (!tuner_.is_settled()) tune();
    prepare();
  }

  /// Called when all processes have finished the same step, so that their communicators are free.
  void tune() {
    tuner_.step_done(std::chrono::steady_clock::now());
    if (tuner_.is_due()) {
      const at::Tensor choice = at::full({1}, static_cast<std::int64_t>(tuner_.best()), at::kLong);
      workers_->communicator->broadcast({&choice, 1}, 0)->wait();
      tuner_.settle(static_cast<std::size_t>(choice.item<std::int64_t>()));
      if (workers_->is_chief()) base::log_info(tuner_.report());
    }
    buffers_.partition(tuner_.bytes_per_pack());
  }

  void prepare() {
    if (!reducer_) return;
    progress_.start(buffers_.bucket_of(), buffers_.num_buckets());
    reducer_->start(buffers_.num_buckets());
  }

  /// Buckets of a failed pass may already be in the other processes' sums.
  void check_is_first_pass() const {
    check_state(!has_failed_,
                "A replica applies gradients again in a step in which its backward has failed: let "
                "the step's error propagate out of Strategy::run, and make the next step.");
  }

  /// Gives up the current step. When this returns, no thread is in a collective of it.
  void give_up() noexcept {
    if (!reducer_) return;
    has_failed_ = true;
    stop_reducer();
  }

  void stop_reducer() noexcept {
    if (!reducer_) return;
    try {
      reducer_->stop();
    } catch (const std::exception&) {  // thrown again when gradients are applied
    }
  }

  const std::shared_ptr<comm::LocalGroup> group_;
  const std::shared_ptr<const WorkerGroup> workers_;
  const int optimizer_;  // its number among the strategy's
  GradientBuckets buffers_;
  BucketSizeTuner tuner_;
  BucketProgress progress_;
  std::vector<std::vector<at::Tensor>> parts_;  // [variable][replica]: delivered during backward
  std::vector<at::Tensor> values_;              // [replica]: added up with its gradients
  std::atomic<bool> has_failed_ = false;        // the current step; set by any replica
  // Declared after what its thread uses, so that the thread ends first.
  const std::unique_ptr<GradientReducer> reducer_;
  const std::vector<std::unique_ptr<comm::Communicator>>
      local_communicators_;  // for `inner_`, which sends nothing
  const std::unique_ptr<GradientSynchronizer> inner_;
};

}  // namespace

std::unique_ptr<GradientSynchronizer> make_worker_synchronizer(const SynchronizerContext& context) {
  return std::make_unique<WorkerSynchronizer>(context);
}

}  // namespace brigade::distribute
