#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/concurrency/stage_slots.h"

namespace brigade::distribute {

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

  /// Throws kInvalidArgument if the names of the cut are not in the order of the layers, or if the
  /// first one is the model's first layer.
  at::Tensor begin_layer(int replica, std::string_view name, const at::Tensor& x) override;
  /// Throws kInvalidArgument, naming the nearest layer, if a layer of the cut has not begun.
  void begin_backward(int replica) override;
  void end_backward(int replica) noexcept override;

 private:
  /// The forward pass of one micro-batch. Its thread's alone.
  struct alignas(64) MicroBatchPass {
    int stage = 0;
    bool is_in_backward = false;      // what is computed again there stays on its stage
    std::vector<std::string> layers;  // that began, until one pass has reached the last stage
  };

  void check_move(MicroBatchPass& pass, int stage) const;
  Error not_reached(const MicroBatchPass& pass) const;
  int last_stage() const { return static_cast<int>(cut_.size()); }

  const std::shared_ptr<concurrency::StageSlots> slots_;
  const std::vector<std::string> cut_;
  std::vector<MicroBatchPass> passes_;     // [replica]
  std::atomic<bool> is_verified_ = false;  // a pass has reached the last stage
};

}  // namespace brigade::distribute
