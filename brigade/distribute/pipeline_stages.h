#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/comm/stage_passes.h"
#include "brigade/concurrency/stage_slots.h"
#include "brigade/distribute/stage_cut.h"

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
/// Thread-safety: see comm::StagePasses.
class PipelineStages final : public comm::StagePasses {
 public:
  /// `cut`: [stage - 1], the names of the layers with which the stages after the first begin. As
  /// many as `slots` has stages, less one.
  PipelineStages(std::shared_ptr<concurrency::StageSlots> slots, std::vector<std::string> cut,
                 int micro_batches);

  /// Throws as StageCut::begin_layer.
  at::Tensor begin_layer(int replica, std::string_view name, const at::Tensor& x) override;
  /// Throws as StageCut::check_is_complete.
  void begin_backward(int replica) override;
  bool may_defer(int replica) override;
  void defer(int replica, std::function<void()> work) override;
  void complete_deferred(int replica) override;
  void share(int replica, int count, const std::function<void(int)>& work) override;
  void end_backward(int replica) noexcept override;

 private:
  const std::shared_ptr<concurrency::StageSlots> slots_;
  StageCut cut_;
};

}  // namespace brigade::distribute
