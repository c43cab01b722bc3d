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
#include "brigade/distribute/pipeline_workers.h"
#include "brigade/distribute/stage_channels.h"
#include "brigade/distribute/stage_cut.h"
#include "brigade/distribute/stage_variables.h"

namespace torch::autograd {
struct Node;
}

namespace brigade::distribute {

/// The stages of a pipeline that one process computes: those on `own_devices` of its devices, from
/// `first_device` on. Stage s is on device s % devices, so with several stages on each device those
/// of the processes alternate.
struct OwnStages {
  int stages = 1;   ///< of the pipeline
  int devices = 1;  ///< of the pipeline
  int first_device = 0;
  int own_devices = 1;

  int first() const { return first_device; }
  int last() const { return stages - devices + first_device + own_devices - 1; }
  bool has(int stage) const {
    const int device = stage % devices - first_device;
    return device >= 0 && device < own_devices;
  }
  /// Which of several on its device a stage is.
  int chunk_of(int stage) const { return stage / devices; }
  bool has_chunks() const { return stages > devices; }
};

/// Moves micro-batches through those stages of a model that this process computes. Every process
/// runs the whole function of the step, for all micro-batches. Layers of other processes' stages
/// get batches without examples there, as replicas without examples do, so they cost nothing:
///
///   - where an own stage begins after one of another process, such a batch is replaced by what the
///     process before sent;
///   - where a stage of another process begins after an own one, the own result is sent to the next
///     process, and an empty batch goes on;
///   - where the model ends (`comm::end_layers`), all processes get what the last one computed. So
///     losses and metrics are computed everywhere, from the same values.
///
/// Backward, the gradient by what was received is sent to the process before, and a node of the
/// autograd graph waits for that of what was sent. If the process has several stages on each
/// device, with those of others between, one node does both.
///
/// With activations and results goes where the micro-batch's stream of random numbers is, and which
/// variables the stages have used. A variable that several workers use gets its gradient from the
/// last of them on: with the gradient by an activation, a worker sends those of the variables that
/// an earlier one uses as well, whose own parts are then added, as in the backward pass of one
/// process.
///
/// Thread-safety: as ExecutionSlots and StagePasses.
class WorkerStages final : public concurrency::ExecutionSlots, public comm::StagePasses {
 public:
  /// `slots`: of the own stages. `channels`: of the pipeline's workers. `micro_batches`: those of
  /// this pipeline.
  WorkerStages(std::shared_ptr<concurrency::StageSlots> slots, StageStarts starts, OwnStages own,
               std::shared_ptr<StageVariables> variables, int micro_batches,
               std::shared_ptr<const StageChannels> channels, PipelineWorkers workers);

  /// A barrier of all processes, of other pipelines as well. Throws what collectives throw.
  void start() override;
  void begin(int task) override { slots_->begin(task); }
  void end(int task) override;
  void acquire(int task) override { slots_->acquire(task); }
  void release(int task) override { slots_->release(task); }
  void abort(const std::string& reason) override;

  /// Throws as StageCut::begin_layer, kInvalidArgument if the process before sent something else
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
  void divide_gradients(int replica, std::span<const at::Tensor> variables,
                        std::span<at::Tensor> gradients) override;
  void take_gradients(int replica, std::vector<at::Tensor> gradients) override;
  void end_backward(int replica) noexcept override;

 private:
  /// Where a micro-batch is in the model.
  enum class Where { kNotBegun, kBefore, kInside, kAfter, kEnded };
  /// Its thread's alone.
  struct alignas(64) Pass {
    Where where = Where::kNotBegun;
    bool has_backward = false;  // it went backward in this step
    at::Tensor received;        // from the process before, if it wants the gradient
    int received_stage = 0;     // which begins with it
    at::Tensor sent;            // to the next process, with its graph
    int sent_stage = 0;         // which begins with it
    // Where the graph of the stages of now begins, if it goes on to own ones before: a
    // RemoteGradient. It runs also if no gradient behind it is wanted, since it leads to a leaf
    // whose gradient always is.
    const torch::autograd::Node* entered = nullptr;
    std::vector<at::Tensor> leaves;
    at::Tensor result;  // of the model, until its gradient is asked for
    // What crossed the last boundary, and what goes on in its place: other layers that begin with
    // the former get the latter.
    at::Tensor crossed, in_its_place;
    VariableUse before;            // of the processes before
    VariableSet used;              // by the own stages
    VariableUse in_all;            // of all processes, when the model has ended
    std::vector<at::Tensor> tied;  // [as `tied_before`]: gradients for the process before
  };
  class RemoteGradient;

  /// The message with which a micro-batch begins a stage, or the gradient by it.
  comm::MessageKey key_of(int replica, int stage) const {
    return {.step = step_, .number = replica, .chunk = own_.chunk_of(stage)};
  }
  Pass& pass_of(int replica) { return passes_[static_cast<std::size_t>(replica)]; }
  at::Tensor continue_model(int replica, std::string_view layer, std::optional<int> stage,
                            const at::Tensor& x);
  at::Tensor begin_model(Pass& pass, const at::Tensor& x) const;
  at::Tensor receive_activation(int replica, std::string_view layer, int stage,
                                const at::Tensor& like);
  at::Tensor continue_received(int replica, int stage, const at::Tensor& received);
  at::Tensor send_activation(int replica, int stage, const at::Tensor& x);
  at::Tensor receive_result(int replica);
  at::Tensor receive(int replica, comm::TensorChannel& channel, const comm::MessageKey& key,
                     bool& wants_gradient, VariableUse& use);
  VariableSet use_stages(Pass& pass, const at::Tensor& end) const;
  void check_tied(const Pass& pass) const;
  [[noreturn]] void refuse_detached(int stage) const;
  at::Tensor companion_of(const at::Tensor& x, const VariableUse& use) const;
  VariableSet use_behind(const Pass& pass, const at::Tensor& end) const;
  std::vector<std::size_t> tied_before(const VariableUse& before, const VariableUse& in_all) const;

  const std::shared_ptr<concurrency::StageSlots> slots_;
  StageCut cut_;
  const OwnStages own_;
  const std::shared_ptr<StageVariables> variables_;
  const std::shared_ptr<const StageChannels> channels_;  // shared with the nodes of graphs
  const PipelineWorkers workers_;
  const std::string worker_;  // names this process in the errors of others
  std::int64_t step_ = 0;     // the number of runs before this one, equal in all processes
  std::vector<Pass> passes_;
  std::atomic<int> to_end_ = 0;  // tasks of this step that have not ended
  std::atomic<bool> has_failed_ = false;
};

}  // namespace brigade::distribute
