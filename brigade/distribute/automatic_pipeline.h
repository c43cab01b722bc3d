#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/concurrency/execution_slots.h"
#include "brigade/concurrency/stage_slots.h"
#include "brigade/distribute/layer_profiler.h"
#include "brigade/distribute/pipeline_stages.h"
#include "brigade/distribute/strategies/pipeline_cut.h"

namespace brigade::distribute {

/// A pipeline that chooses its cut. In its first steps it has one stage, in which a `LayerProfiler`
/// measures the layers; then it is a `PipelineStages` with the cut that `choose_cut` finds.
///
/// Thread-safety: as ExecutionSlots and StagePasses; `chosen` while no task runs.
class AutomaticPipeline final : public concurrency::ExecutionSlots, public comm::StagePasses {
 public:
  /// `slots`: of the stages of the pipeline to be. `slots_options`: those that it was made of.
  AutomaticPipeline(const AutomaticCut& cut, const concurrency::StageSlotsOptions& slots_options,
                    std::shared_ptr<concurrency::StageSlots> slots);

  /// The bytes of all variables, which the last layer's are known by. Before the first step.
  void set_variable_bytes(std::function<std::int64_t()> bytes) {
    variable_bytes_ = std::move(bytes);
  }
  /// Unset until enough steps were measured.
  const std::optional<ChosenCut>& chosen();

  void start() override;
  void begin(int task) override;
  void end(int task) override;
  void acquire(int task) override;
  void release(int task) override;
  void abort(const std::string& reason) override;

  /// Throws what `choose_cut` has thrown for the costs that were measured.
  at::Tensor begin_layer(int replica, std::string_view name, const at::Tensor& x) override;
  /// Throws kInvalidArgument if the model announces fewer layers than there are stages.
  void begin_backward(int replica) override;
  void end_backward(int replica) noexcept override;

 private:
  bool is_profiling() const { return profiler_ != nullptr; }
  /// Ends the last step, and chooses if it was the last to be measured.
  void end_step();
  void choose();
  std::vector<LayerCost> costs() const;

  const AutomaticCut cut_;
  const concurrency::StageSlotsOptions options_;
  const std::shared_ptr<concurrency::StageSlots> final_slots_;
  std::function<std::int64_t()> variable_bytes_;
  std::shared_ptr<concurrency::StageSlots> slots_;  // of this step
  std::unique_ptr<PipelineStages> stages_;          // with them
  std::shared_ptr<LayerProfiler> profiler_;         // null: the cut was chosen
  std::optional<ChosenCut> chosen_;
  std::optional<Error> error_;  // there is no cut
};

}  // namespace brigade::distribute
