#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/device/stream.h"
#include "brigade/distribute/optimizer/flat_gradients.h"
#include "brigade/distribute/optimizer/gradient_buckets.h"
#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

/// Nearly equal parts of a bucket, one for each replica to add; fewer of a small bucket.
std::vector<at::Tensor> parts_of(const at::Tensor& bucket, int count) {
  std::vector<at::Tensor> parts;
  for (int part = 0; part < count; ++part) {
    const ElementRange range = element_shard({0, bucket.numel()}, part, count);
    if (range.begin < range.end)
      parts.push_back(bucket.narrow(0, range.begin, range.end - range.begin));
  }
  return parts;
}

std::vector<std::vector<at::Tensor>> parts_of_all(const FlatGradients& gradients, int count) {
  std::vector<std::vector<at::Tensor>> parts;
  for (std::size_t bucket = 0; bucket < gradients.num_buckets(); ++bucket)
    parts.push_back(parts_of(gradients.bucket(bucket), count));
  return parts;
}

/// During backward each replica's hooks copy its gradients to the buffers in which they are reduced
/// and applied. When a bucket is complete, a fence is recorded, and the replica's reducer queues
/// the bucket's reduction on a side stream, after the fence. All reducers make these calls in the
/// same order, in a separate group. When a replica applies, it fills in the gradients that backward
/// has not reported, and waits for the others in the strategy's group. By then all replicas have
/// submitted all buckets, so the reducers finish. Then the replica's stream waits for the side
/// stream, and updates.
///
/// The replicas' threads never wait in the reducers' group. The failure of a replica is noticed by
/// those that wait for it in the strategy's group, which then release the reducers.
///
/// Replicas that share the variables' memory, as logical GPUs of one card do, make one update,
/// which is replica 0's: after all have queued their backward, before any queues its next forward.
class OverlappedSynchronizer final : public GradientSynchronizer, public GradientReadyListener {
 public:
  OverlappedSynchronizer(const SynchronizerContext& context, std::int64_t bytes_per_bucket)
      : group_(context.group),
        communicators_(context.communicators),
        state_(context.state),
        is_shared_(state_->storages().front()->masters() == 1),
        reducers_group_(context.side_communicators.group),
        reducers_communicators_(context.side_communicators.make(reducers_group_)) {
    for (int replica = 0; replica < group_->world_size(); ++replica)
      replicas_.push_back(std::make_unique<OfReplica>(*this, replica, bytes_per_bucket));
    for (const auto& each : replicas_) each->prepare();
  }

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    const at::NoGradGuard no_grad;
    if (state == GradientState::kAggregated) {
      const std::vector<bool> known = present(gradients);
      return update(replica, known, [&](const optim::UpdateRun& run) {
        state_->apply_whole(replica, run, gradients);
      });
    }
    const std::vector<bool> known = reduce(replica, gradients);
    const FlatGradients& flat = replicas_[static_cast<std::size_t>(replica)]->gradients;
    update(replica, known, [&](const optim::UpdateRun& run) {
      state_->apply(replica, run, run.begin, run.end,
                    flat.buffer(run.storage).narrow(0, run.begin, run.end - run.begin));
    });
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    const std::vector<bool> known = reduce(replica, gradients);
    const FlatGradients& flat = replicas_[static_cast<std::size_t>(replica)]->gradients;
    std::vector<at::Tensor> sums(gradients.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (known[i]) sums[i] = flat.of(i).clone();  // the next gradients come to the same place
    }
    return sums;
  }

  /// On one GPU, where exchanges are events between streams.
  bool can_be_captured() const override { return is_shared_; }

  GradientReadyListener* ready_listener() override { return this; }
  bool is_enabled() const override { return true; }
  void begin(int) override {}

  void ready(int replica, std::size_t variable, const at::Tensor& gradient) override {
    replicas_[static_cast<std::size_t>(replica)]->fill(variable, gradient);
  }

  void cancel(int replica) noexcept override { give_up(replica); }

  StepOutcome end_step(StepOutcome replicas) override {
    const StepOutcome outcome = has_failed_ ? StepOutcome::kFailed : replicas;
    if (outcome == StepOutcome::kFailed) {
      give_up(0);
      for (const auto& each : replicas_) each->stop();
      reducers_group_->reset();
      for (const auto& each : replicas_) each->prepare();
    }
    has_failed_ = false;
    return outcome;
  }

 private:
  struct OfReplica {
    OfReplica(OverlappedSynchronizer& all, int replica, std::int64_t bytes_per_bucket)
        : gradients(*all.state_, replica, bytes_per_bucket),
          device(gradients.buffer(0).device()),
          side(device::make_stream({.torch_device = device})),
          filled(gradients.num_buckets()),
          communicator(*all.reducers_communicators_[static_cast<std::size_t>(replica)]),
          parts(parts_of_all(gradients, communicator.world_size())),
          reducer([this](std::size_t bucket) { reduce(bucket); }) {}

    void prepare() {
      progress.start(gradients.bucket_of(), gradients.num_buckets());
      reducer.start(gradients.num_buckets());
    }
    void fill(std::size_t variable, const at::Tensor& gradient) {
      gradients.fill(variable, gradient);
      progress.deliver(variable);
      const auto bucket = progress.filled(variable);
      if (!bucket) return;
      filled[*bucket].record(device);
      reducer.ready(*bucket);
    }
    void fill_rest(std::span<const at::Tensor> values) {
      const std::vector<bool> is_filled = progress.is_filled();
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (gradients.bucket_of()[i] && !is_filled[i]) fill(i, values[i]);
      }
    }
    /// On the reducer's thread.
    void reduce(std::size_t bucket) {
      const at::NoGradGuard no_grad;
      const device::StreamScope scope(side);
      filled[bucket].wait(device);
      communicator.all_reduce(parts[bucket], comm::ReduceOp::kSum)->wait();
    }
    /// The current stream waits for all reductions, which are queued when this returns.
    void join() {
      reducer.finish();
      {
        const device::StreamScope scope(side);
        reduced.record(device);
      }
      reduced.wait(device);
    }
    void stop() noexcept {
      try {
        reducer.stop();
      } catch (const std::exception&) {  // the step has failed, and says why
      }
    }

    const FlatGradients gradients;
    const c10::Device device;
    const c10::Stream side;
    std::vector<device::StreamFence> filled;  // [bucket], recorded by whoever completes it
    device::StreamFence reduced;
    comm::Communicator& communicator;
    // [bucket]: kept, because a reducer that is released by a failure does not wait for those that
    // still read what it has published.
    const std::vector<std::vector<at::Tensor>> parts;
    BucketProgress progress{/*replicas=*/1};
    GradientReducer reducer;  // last: its thread uses the others
  };

  /// Adds the replicas' gradients, and returns which variables have one in any replica.
  std::vector<bool> reduce(int replica, std::span<const at::Tensor> gradients) {
    const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
    OfReplica& own = *replicas_[static_cast<std::size_t>(replica)];
    try {
      own.fill_rest(gradients);
      std::vector<bool> known =
          present_anywhere(*communicators_[static_cast<std::size_t>(replica)], gradients);
      check_is_first_pass();  // here, where a replica that has failed was noticed
      own.join();
      own.prepare();
      return known;
    } catch (...) {
      give_up(replica);
      throw;
    }
  }

  template <class Apply>
  void update(int replica, const std::vector<bool>& known, const Apply& apply) {
    const auto update_all = [&] {
      const at::AutoDispatchBelowADInplaceOrView
          below;  // versions are bumped by hand, see mark_updated
      for (const optim::UpdateRun& run : state_->runs(known)) apply(run);
    };
    if (is_shared_) {
      const at::Tensor& own = replicas_[static_cast<std::size_t>(replica)]->gradients.buffer(0);
      group_->exchange(replica, {.name = "apply_gradients"}, {&own, 1}, [&] {
        if (replica != 0) return;
        update_all();
        state_->advance(known);
      });
      return mark_updated(*state_, known, replica);
    }
    update_all();
    mark_updated(*state_, known, replica);
    // All replicas read the steps in `runs`; replica 0 advances them when all have read.
    group_->barrier(replica);
    if (replica == 0) state_->advance(known);
    group_->barrier(replica);
  }

  /// Reducers may still be in buckets of a failed pass.
  void check_is_first_pass() const {
    check_state(!has_failed_,
                "A replica applies gradients again in a step in which its backward has failed: let "
                "the step's error propagate out of Strategy::run, and make the next step.");
  }

  void give_up(int replica) noexcept {
    has_failed_ = true;
    reducers_group_->abort(replica, "the step failed in a replica");
  }

  const std::shared_ptr<comm::LocalGroup> group_;
  const std::vector<comm::Communicator*> communicators_;  // [replica]
  const std::shared_ptr<optim::OptimizerState> state_;
  const bool is_shared_;  // the variables have one memory
  const std::shared_ptr<comm::LocalGroup> reducers_group_;
  const std::vector<std::unique_ptr<comm::Communicator>> reducers_communicators_;  // [replica]
  std::atomic<bool> has_failed_ = false;  // the current step; set by any replica
  std::vector<std::unique_ptr<OfReplica>> replicas_;
};

}  // namespace

SynchronizerFactory overlapped_synchronizer(const OverlapOptions& options) {
  return [options](const SynchronizerContext& context) -> std::unique_ptr<GradientSynchronizer> {
    if (context.group->world_size() == 1 || !context.side_communicators.make)
      return make_replica_synchronizer(context);
    return std::make_unique<OverlappedSynchronizer>(context, options.bytes_per_bucket);
  };
}

}  // namespace brigade::distribute
