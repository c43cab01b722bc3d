#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/comm/stage_passes.h"
#include "brigade/concurrency/execution_slots.h"
#include "brigade/concurrency/stage_slots.h"
#include "brigade/distribute/pipeline/pipeline_workers.h"
#include "brigade/distribute/pipeline/stage_channels.h"
#include "brigade/distribute/pipeline/stage_cut.h"
#include "brigade/distribute/pipeline/stage_message.h"
#include "brigade/distribute/pipeline/stage_variables.h"

namespace torch::autograd {
struct Node;
}

namespace brigade::distribute {

/// The stages of a pipeline that one process computes: those on `local_devices` of its devices,
/// from `first_device` on. Stage s is on device s % devices, so with several stages on each device
/// the stages of the processes alternate.
struct LocalStages {
  int stages = 1;   ///< of the pipeline
  int devices = 1;  ///< of the pipeline
  int first_device = 0;
  int local_devices = 1;

  int first() const { return first_device; }
  int last() const { return stages - devices + first_device + local_devices - 1; }
  bool has(int stage) const {
    const int device = stage % devices - first_device;
    return device >= 0 && device < local_devices;
  }
  /// Which of several on its device a stage is.
  int chunk_of(int stage) const { return stage / devices; }
  bool has_chunks() const { return stages > devices; }
};

/// Moves micro-batches through those stages of a model that this process computes. Every process
/// runs the whole function of the step, for all micro-batches. Layers of other processes' stages
/// get batches without examples there, as replicas without examples do, so they cost nothing:
///
///   - where a local stage begins after one of another process, such a batch is replaced by what
///     the previous process sent;
///   - where a stage of another process begins after a local one, the local result is sent to the
///     next process, and the model continues with an empty batch;
///   - where the model ends (`comm::end_layers`), all processes get what the last one computed. So
///     losses and metrics are computed everywhere, from the same values.
///
/// In backward, the gradient of what was received is sent to the previous process, and a node of
/// the autograd graph waits for the gradient of what was sent. If the process has several stages on
/// each device, with those of others between them, one node does both (`RemoteGradient`).
///
/// Activations and results are accompanied by the state of the micro-batch's random numbers, and by
/// which variables the stages have used. A variable that several workers use (a tied weight) gets
/// its gradient from the last of these workers to the first: with the gradient of an activation, a
/// worker sends the gradients of the variables that an earlier worker uses as well, which adds its
/// own terms to them, as in the backward pass of one process.
///
/// Thread-safety: as ExecutionSlots and StagePasses.
class WorkerStages final : public concurrency::ExecutionSlots, public comm::StagePasses {
 public:
  /// `slots`: of the local stages. `channels`: of the pipeline's workers. `micro_batches`: those of
  /// this pipeline.
  WorkerStages(std::shared_ptr<concurrency::StageSlots> slots, StageStarts starts,
               LocalStages local, std::shared_ptr<StageVariables> variables, int micro_batches,
               std::shared_ptr<const StageChannels> channels, PipelineWorkers workers);

  /// A barrier of all processes, of other pipelines as well. Throws what collectives throw.
  void start() override;
  void begin(int task) override { slots_->begin(task); }
  void end(int task) override;
  void acquire(int task) override { slots_->acquire(task); }
  void release(int task) override { slots_->release(task); }
  void abort(const std::string& reason) override;

  /// Throws as StageCut::begin_layer, kInvalidArgument if the previous process sent something else
  /// than the model has here, and kUnimplemented for a second pass through the model in a step, and
  /// for a stage that begins or ends within `layers::recompute`.
  at::Tensor begin_layer(int replica, std::string_view name, const at::Tensor& x) override;
  /// Throws as StageCut::place_layer, and as `begin_layer`.
  at::Tensor place_layer(int replica, std::string_view name, const std::string& device,
                         const at::Tensor& x) override;
  at::Tensor end_layers(int replica, const at::Tensor& result) override;
  void end_layers_with_more(int replica) override;
  /// Throws kUnimplemented for a penalty of a weight that several workers use, and for a weight
  /// that several stages use if each device has several.
  void check_loss(int replica, const at::Tensor& loss) override;
  void begin_backward(int replica) override;
  std::vector<at::Tensor> backward_inputs(int replica) override;
  void keep_local_gradients(int replica, std::span<const at::Tensor> variables,
                            std::span<at::Tensor> gradients) override;
  void send_input_gradients(int replica, std::vector<at::Tensor> gradients) override;
  void end_backward(int replica) noexcept override;

 private:
  /// Where a micro-batch is in the model, seen from the local stages.
  enum class Position { kNotBegun, kBefore, kInside, kAfter, kEnded };
  /// Used by its micro-batch's thread alone.
  struct alignas(64) Pass {
    Position position = Position::kNotBegun;
    bool has_backward = false;  // in this step
    at::Tensor received;        // from the previous process, if that wants the gradient
    int received_stage = 0;     // which begins with it
    at::Tensor sent;            // to the next process, with its graph
    int sent_stage = 0;         // which begins with it
    // With several stages on each device: the RemoteGradient at which the graph of the current
    // local stages begins. It runs even if no gradient before it is wanted, since it leads to one
    // of `leaves`, whose gradients are always computed.
    const torch::autograd::Node* entry = nullptr;
    std::vector<at::Tensor> leaves;
    at::Tensor result;  // of the model, until `check_loss`
    // The last input of a layer that began a stage, and what replaced it: other layers that begin
    // with the same input get the same replacement.
    at::Tensor boundary_input, boundary_output;
    VariableUse before;                    // by the stages of the previous processes
    VariableSet used;                      // by the local stages
    VariableUse in_all;                    // by all stages, when the model has ended
    std::vector<at::Tensor> tied_to_send;  // [as `tied_before`]: gradients for the previous process
  };

  /// The message with which a micro-batch begins a stage, or the gradient of its tensor.
  comm::MessageKey key_of(int replica, int stage) const {
    return {.step = step_, .number = replica, .chunk = local_.chunk_of(stage)};
  }
  Pass& pass_of(int replica) { return passes_[static_cast<std::size_t>(replica)]; }
  at::Tensor continue_model(int replica, std::string_view layer, std::optional<int> stage,
                            const at::Tensor& x);
  at::Tensor begin_model(Pass& pass, const at::Tensor& x) const;
  at::Tensor receive_activation(int replica, std::string_view layer, int stage,
                                const at::Tensor& local);
  at::Tensor continue_received(int replica, int stage, const at::Tensor& received);
  at::Tensor send_activation(int replica, int stage, const at::Tensor& x);
  at::Tensor receive_result(int replica);
  StageMessage receive(int replica, comm::TensorChannel& channel, const comm::MessageKey& key);
  /// Adds the variables of the local stages that end with this tensor to `used`, and returns them.
  VariableSet add_used(Pass& pass, const at::Tensor& end) const;
  VariableSet used_variables(const Pass& pass, const at::Tensor& end) const;

  const std::shared_ptr<concurrency::StageSlots> slots_;
  StageCut cut_;
  const LocalStages local_;
  const std::shared_ptr<StageVariables> variables_;
  const std::shared_ptr<const StageChannels> channels_;  // shared with the nodes of graphs
  const PipelineWorkers workers_;
  const std::string worker_;  // names this process in the errors of others
  std::int64_t step_ = 0;     // the number of runs before this one, equal in all processes
  std::vector<Pass> passes_;
  std::atomic<int> running_tasks_ = 0;  // of this step
  std::atomic<bool> has_failed_ = false;
};

}  // namespace brigade::distribute
