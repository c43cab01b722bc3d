#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

class ReplicaSynchronizer final : public GradientSynchronizer {
 public:
  explicit ReplicaSynchronizer(const SynchronizerContext& context)
      : communicators_(context.communicators),
        state_(context.state),
        workers_(context.workers ? context.workers->communicator.get() : nullptr),
        purpose_{.use = comm::CallPurpose::Use::kGradients, .optimizer = context.optimizer} {}

  void apply(int replica, std::span<const at::Tensor> gradients, GradientState state) override {
    const at::NoGradGuard no_grad;
    const comm::PurposeScope purpose(progress_of(replica), purpose_);
    std::vector<at::Tensor> summed(gradients.begin(), gradients.end());
    if (state == GradientState::kLocal && has_peers()) summed = aggregate(replica, gradients);
    const std::vector<bool> known = present(summed);
    {
      const at::AutoDispatchBelowADInplaceOrView
          below;  // versions are bumped by hand, see mark_updated
      for (const optim::UpdateRun& run : state_->runs(known))
        state_->apply_whole(replica, run, summed);
    }
    mark_updated(*state_, known, replica);
    // All replicas read the steps in `runs`; replica 0 advances them when all have read.
    if (has_peers()) communicators_[replica]->barrier();
    if (replica == 0) state_->advance(known);
    if (has_peers()) communicators_[replica]->barrier();
  }

  std::vector<at::Tensor> aggregate(int replica, std::span<const at::Tensor> gradients) override {
    const at::NoGradGuard no_grad;
    const comm::PhaseScope communication(current_step_clock(), comm::StepPhase::kCommunication);
    const comm::PurposeScope purpose(progress_of(replica), purpose_);
    comm::Communicator& communicator = *communicators_[replica];
    const std::vector<bool> known = present_anywhere(communicator, gradients);
    std::vector<at::Tensor> sums(gradients.size());
    std::vector<at::Tensor> sent;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!known[i]) continue;
      sums[i] = gradients[i].defined() ? gradients[i].detach().clone()
                                       : at::zeros_like(state_->variables()[i].component(replica));
      sent.push_back(sums[i]);
    }
    communicator.all_reduce(sent, comm::ReduceOp::kSum)->wait();
    return sums;
  }

  comm::ProcessCommunicator* workers() const override { return workers_; }

 private:
  /// The progress, for the replica that communicates for its process; null for others.
  comm::StepProgress* progress_of(int replica) const {
    return replica == 0 && workers_ ? &workers_->progress() : nullptr;
  }
  // In this process or in others.
  bool has_peers() const { return communicators_.front()->world_size() > 1; }

  const std::vector<comm::Communicator*> communicators_;  // [replica]
  const std::shared_ptr<optim::OptimizerState> state_;
  comm::ProcessCommunicator* const workers_;  // null: a single process
  const comm::CallPurpose purpose_;
};

}  // namespace

std::unique_ptr<GradientSynchronizer> make_replica_synchronizer(
    const SynchronizerContext& context) {
  return std::make_unique<ReplicaSynchronizer>(context);
}

}  // namespace brigade::distribute
