#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "brigade/comm/stage_passes.h"
#include "brigade/concurrency/execution_slots.h"
#include "brigade/concurrency/stage_slots.h"
#include "brigade/distribute/pipeline/stage_cut.h"

namespace brigade::distribute {

/// Waits for this pass of a micro-batch on a stage; the time counts as waiting.
void enter_stage(concurrency::StageSlots& slots, int replica, concurrency::PassDirection direction,
                 int stage);

/// Moves a micro-batch to the next stage of this process: waits for its pass there, and returns `x`
/// with a node of the autograd graph that does the same backward.
at::Tensor move_to_stage(const std::shared_ptr<concurrency::StageSlots>& slots, int replica,
                         int stage, const at::Tensor& x);

/// Moves micro-batches through a model that is cut into stages at named layers: forward where a
/// layer begins that begins a stage (`comm::begin_layer`), and backward, by a node of the autograd
/// graph at the same place.
///
/// Thread-safety: as ExecutionSlots and StagePasses.
class PipelineStages final : public concurrency::ExecutionSlots, public comm::StagePasses {
 public:
  /// `starts`: as many as `slots` has stages, less one.
  PipelineStages(std::shared_ptr<concurrency::StageSlots> slots, StageStarts starts,
                 int micro_batches);

  void start() override;
  void begin(int task) override { slots_->begin(task); }
  void end(int task) override { slots_->end(task); }
  void acquire(int task) override { slots_->acquire(task); }
  void release(int task) override { slots_->release(task); }
  void abort(const std::string& reason) override { slots_->abort(reason); }

  /// Throws as StageCut::begin_layer.
  at::Tensor begin_layer(int replica, std::string_view name, const at::Tensor& x) override;
  /// Throws as StageCut::place_layer.
  at::Tensor place_layer(int replica, std::string_view name, const std::string& device,
                         const at::Tensor& x) override;
  at::Tensor end_layers(int replica, const at::Tensor& result) override;
  /// Throws as StageCut::check_is_complete.
  void begin_backward(int replica) override;
  bool may_defer(int replica) override;
  void defer(int replica, std::function<void()> work) override;
  void complete_deferred(int replica) override;
  void parallel_for(int replica, int count, const std::function<void(int)>& work) override;
  void end_backward(int replica) noexcept override;

 private:
  at::Tensor move(int replica, int stage, const at::Tensor& x);

  const std::shared_ptr<concurrency::StageSlots> slots_;
  StageCut cut_;
};

}  // namespace brigade::distribute
