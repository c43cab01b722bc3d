#include <ATen/core/grad_mode.h>

#include "brigade/distribute/gradient_applier.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/wire_buffers.h"

namespace brigade::distribute {

namespace {

class WorkerApplier final : public GradientApplier {
 public:
  WorkerApplier(std::shared_ptr<comm::LocalGroup> group,
                std::shared_ptr<optim::OptimizerState> state,
                std::shared_ptr<const Workers> workers)
      : group_(std::move(group)),
        workers_(std::move(workers)),
        buffers_(*state, workers_->communicator, workers_->bytes_per_pack.value_or(0)),
        alone_(comm::make_local_communicators(group_)),
        inner_(group_->world_size() > 1 ? make_share_applier(group_, state)
                                        : make_replica_applier({alone_.front().get()}, state)) {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    if (state == GradientState::kAggregated) return inner_->apply(replica, gradients, state);
    inner_->apply(replica, meet(replica, gradients), GradientState::kAggregated);
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> sums = meet(replica, gradients);
    for (at::Tensor& sum : sums) {
      if (sum.defined()) sum = sum.clone();  // the buffers are the next step's
    }
    if (group_->world_size() > 1) group_->meet(replica);  // all have read
    return sums;
  }

  comm::Communicator* workers() const override { return workers_->communicator.get(); }

 private:
  std::vector<at::Tensor> meet(int replica, std::span<const at::Tensor> gradients) {
    const at::NoGradGuard no_grad;
    const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
    if (group_->world_size() == 1) {
      buffers_.fill({&gradients, 1}, 0, 1);
      buffers_.reduce();
      return buffers_.sums();
    }
    group_->exchange(replica, {.name = "apply_gradients"}, gradients, [&] {
      std::vector<std::span<const at::Tensor>> parts;
      for (int rank = 0; rank < group_->world_size(); ++rank)
        parts.push_back(group_->published(rank));
      buffers_.fill(parts, replica, group_->world_size());
    });
    if (replica == 0) buffers_.reduce();
    group_->meet(replica);
    return buffers_.sums();
  }

  const std::shared_ptr<comm::LocalGroup> group_;
  const std::shared_ptr<const Workers> workers_;
  WireBuffers buffers_;
  const std::vector<std::unique_ptr<comm::Communicator>>
      alone_;  // what `inner_` may ask: nothing to send
  const std::unique_ptr<GradientApplier> inner_;
};

}  // namespace

std::unique_ptr<GradientApplier> make_worker_applier(std::shared_ptr<comm::LocalGroup> group,
                                                     std::shared_ptr<optim::OptimizerState> state,
                                                     std::shared_ptr<const Workers> workers) {
  return std::make_unique<WorkerApplier>(std::move(group), std::move(state), std::move(workers));
}

}  // namespace brigade::distribute
