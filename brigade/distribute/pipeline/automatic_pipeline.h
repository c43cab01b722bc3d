#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/concurrency/execution_slots.h"
#include "brigade/concurrency/stage_slots.h"
#include "brigade/distribute/pipeline/layer_profiler.h"
#include "brigade/distribute/strategies/pipeline_cut.h"
#include "brigade/distribute/worker_group.h"

namespace brigade::distribute {

/// What schedules the micro-batches of a pipeline, and what moves them through its stages.
struct PipelinePasses {
  std::shared_ptr<concurrency::ExecutionSlots> execution;
  std::shared_ptr<comm::StagePasses> stages;
};

/// A pipeline that chooses its cut. In its first steps each device computes the whole model, and a
/// `LayerProfiler` measures the layers. Then `choose_cut` finds a cut, with which the pipeline is
/// made. With several workers, each computes all stages in the first steps, and all use the cut
/// that the first worker has chosen.
///
/// Thread-safety: as ExecutionSlots and StagePasses; `chosen` while no task runs.
class AutomaticPipeline final : public concurrency::ExecutionSlots, public comm::StagePasses {
 public:
  using Make = std::function<PipelinePasses(const std::vector<std::string>& cut)>;

  /// `make` makes the pipeline for a chosen cut, of slots with `slots_options`. `workers`: all
  /// processes; null: there is one.
  AutomaticPipeline(const AutomaticCut& cut, const concurrency::StageSlotsOptions& slots_options,
                    Make make, std::shared_ptr<const WorkerGroup> workers);

  /// Sets what returns the bytes of all variables, from which those of the last layer follow.
  /// Before the first step.
  void set_variable_bytes(std::function<std::int64_t()> bytes) {
    variable_bytes_ = std::move(bytes);
  }
  /// Unset until enough steps were measured; with several workers until the next step begins, and
  /// with costs in the first worker only.
  const std::optional<ChosenCut>& chosen();
  /// Whether each worker computes the whole model until the next step begins.
  bool is_profiling() const { return profiler_ != nullptr; }

  void start() override;
  void begin(int task) override;
  void end(int task) override;
  void acquire(int task) override;
  void release(int task) override;
  void abort(const std::string& reason) override;

  /// Throws what `choose_cut` has thrown for the measured costs.
  at::Tensor begin_layer(int replica, std::string_view name, const at::Tensor& x) override;
  /// Throws kInvalidArgument for a layer that device scopes place.
  at::Tensor place_layer(int replica, std::string_view name, const std::string& device,
                         const at::Tensor& x) override;
  at::Tensor end_layers(int replica, const at::Tensor& result) override;
  void end_layers_with_more(int replica) override;
  void check_loss(int replica, const at::Tensor& loss) override;
  /// Throws kInvalidArgument if the model announces fewer layers than there are stages.
  void begin_backward(int replica) override;
  std::vector<at::Tensor> backward_inputs(int replica) override;
  void keep_local_gradients(int replica, std::span<const at::Tensor> variables,
                            std::span<at::Tensor> gradients) override;
  void send_input_gradients(int replica, std::vector<at::Tensor> gradients) override;
  /// While layers are measured, deferred work is done immediately.
  bool may_defer(int replica) override;
  void defer(int replica, std::function<void()> work) override;
  void complete_deferred(int replica) override;
  void parallel_for(int replica, int count, const std::function<void(int)>& work) override;
  void end_backward(int replica) noexcept override;

 private:
  bool is_first_worker() const { return !workers_ || workers_->is_chief(); }
  /// Ends the last step, and chooses if it was the last to be measured.
  void end_step();
  void choose();
  /// All workers get what the first one has chosen, if it has chosen.
  void agree();
  void use_chosen();
  std::vector<LayerCost> costs() const;

  const AutomaticCut cut_;
  const concurrency::StageSlotsOptions options_;
  const Make make_;
  const std::shared_ptr<const WorkerGroup> workers_;
  std::function<std::int64_t()> variable_bytes_;
  PipelinePasses passes_;                    // of this step
  std::shared_ptr<LayerProfiler> profiler_;  // null: the cut was chosen
  std::optional<ChosenCut> chosen_;
  std::optional<Error> error_;  // there is no cut
};

}  // namespace brigade::distribute
