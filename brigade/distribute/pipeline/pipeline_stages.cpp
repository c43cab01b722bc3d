#include "brigade/distribute/pipeline/pipeline_stages.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "brigade/comm/step_clock.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

using concurrency::PassDirection;
using concurrency::StageSlots;

/// Where a micro-batch goes back to the previous stage. It runs on the thread that runs backward:
/// on CPUs the micro-batch's own.
class StageBoundary final : public torch::autograd::Node {
 public:
  StageBoundary(std::shared_ptr<StageSlots> slots, int replica, int previous_stage)
      : slots_(std::move(slots)), replica_(replica), previous_stage_(previous_stage) {}

  std::string name() const override { return "StageBoundary"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    enter_stage(*slots_, replica_, PassDirection::kBackward, previous_stage_);
    return std::move(gradients);
  }

 private:
  const std::shared_ptr<StageSlots> slots_;
  const int replica_;
  const int previous_stage_;
};

}  // namespace

void enter_stage(StageSlots& slots, int replica, PassDirection direction, int stage) {
  const comm::PhaseScope waiting(current_step_clock(), comm::StepPhase::kWait);
  slots.enter(replica, direction, stage);
}

at::Tensor move_to_stage(const std::shared_ptr<StageSlots>& slots, int replica, int stage,
                         const at::Tensor& x) {
  enter_stage(*slots, replica, PassDirection::kForward, stage);
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return x;
  // The same memory and the same version counter: a change in place is noticed as without a cut.
  at::Tensor moved = x.detach();
  const auto boundary = std::make_shared<StageBoundary>(slots, replica, stage - 1);
  boundary->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::set_history(moved, boundary);
  return moved;
}

PipelineStages::PipelineStages(std::shared_ptr<StageSlots> slots, StageStarts starts,
                               int micro_batches)
    : slots_(std::move(slots)), cut_(std::move(starts), micro_batches) {}

void PipelineStages::start() {
  cut_.begin_step();
  slots_->start();
}

at::Tensor PipelineStages::begin_layer(int replica, std::string_view name, const at::Tensor& x) {
  const auto stage = cut_.begin_layer(replica, name);
  return stage ? move(replica, *stage, x) : x;
}

at::Tensor PipelineStages::place_layer(int replica, std::string_view name,
                                       const std::string& device, const at::Tensor& x) {
  const auto stage = cut_.place_layer(replica, name, device);
  return stage ? move(replica, *stage, x) : x;
}

at::Tensor PipelineStages::end_layers(int replica, const at::Tensor& result) {
  cut_.end_layers(replica);
  return result;
}

at::Tensor PipelineStages::move(int replica, int stage, const at::Tensor& x) {
  const at::Tensor moved = move_to_stage(slots_, replica, stage, x);
  if (stage == cut_.last_stage() && !at::GradMode::is_enabled()) slots_->finish(replica);
  return moved;
}

void PipelineStages::begin_backward(int replica) {
  cut_.begin_backward(replica);
  enter_stage(*slots_, replica, PassDirection::kBackward, cut_.last_stage());
}

bool PipelineStages::may_defer(int replica) {
  return slots_->may_defer(replica);
}

void PipelineStages::defer(int replica, std::function<void()> work) {
  slots_->defer(replica, std::move(work));
}

void PipelineStages::complete_deferred(int replica) {
  const comm::PhaseScope waiting(current_step_clock(), comm::StepPhase::kWait);
  slots_->complete_deferred(replica);
}

void PipelineStages::parallel_for(int replica, int count, const std::function<void(int)>& work) {
  slots_->parallel_for(replica, count, work);
}

void PipelineStages::end_backward(int replica) noexcept {
  cut_.end_backward(replica);
  slots_->drop_deferred(replica);
  slots_->finish(replica);
}

}  // namespace brigade::distribute
