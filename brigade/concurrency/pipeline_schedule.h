#pragma once

#include <string_view>
#include <vector>

namespace brigade::concurrency {

/// The order in which the stages of a pipeline compute the forward and backward passes of a step's
/// micro-batches. Results do not depend on it; memory does.
enum class PipelineSchedule {
  /// All forward passes in the order of the micro-batches, then all backward passes in the same
  /// order. Simple, and the only one in which micro-batches may wait for one another between
  /// forward and backward (synchronized batch norm). Every stage keeps the activations of all
  /// micro-batches. Huang et al. 2019, "GPipe".
  kGPipe,
  /// One forward, one backward: a stage begins with as many forward passes as there are stages
  /// from it to the last, and then makes a forward pass after each backward pass. It is as fast as
  /// kGPipe, and stage s of p keeps the activations of p - s micro-batches at most. Narayanan et
  /// al. 2019, "PipeDream"; PyTorch: Schedule1F1B.
  k1F1B,
  /// One forward, one backward, with several stages on each device, its chunks: chunk c of device d
  /// of p is stage c * p + d. Devices wait for a fraction of the time that k1F1B takes at the start
  /// and the end, (p-1) / (v*m + p-1) of a step with v chunks if m is a multiple of p, and keep
  /// more activations: device d those of 2 (p - d - 1) + (v - 1) p + 1 passes at most, each of a
  /// chunk. Narayanan et al. 2021 (Megatron-LM); PyTorch: ScheduleInterleaved1F1B.
  kInterleaved
};

/// "gpipe", "1f1b", "interleaved".
std::string_view to_string(PipelineSchedule schedule);

/// The two passes of a micro-batch through a stage.
enum class PassDirection { kForward, kBackward };

/// What a device computes at a time: one pass of one micro-batch through one of its stages.
struct StagePass {
  PassDirection direction = PassDirection::kForward;
  int micro_batch = 0;
  int chunk = 0;  ///< which of the device's stages: 0 unless it has several

  bool operator==(const StagePass&) const = default;
};

/// [device]: its passes, in their order. Devices with one stage each are the stages.
using StageOrders = std::vector<std::vector<StagePass>>;

/// The passes of each device in a step, with `chunks` stages on each. Throws kInvalidArgument
/// unless all numbers are at least 1, and if there are several chunks without kInterleaved, or one
/// with it.
StageOrders stage_orders(PipelineSchedule schedule, int devices, int micro_batches, int chunks = 1);

/// How long a pass takes in `simulate`, in any unit.
struct PassCosts {
  double forward = 1.0;
  double backward = 1.0;  ///< with the gradients of weights
  /// The parts of `backward` that other passes do not wait for: the gradients of weights. A pass
  /// may defer them to an idle device.
  std::vector<double> weight_gradients = {};
};

/// A simulated step, in virtual time.
struct SimulatedStep {
  double duration = 0.0;
  /// The part of the devices' time in which they wait: for equal stages, one on each, (p-1) /
  /// (m+p-1) with p stages and m micro-batches.
  double bubble = 0.0;
  std::vector<int>
      peak_micro_batches;  ///< [device]: passes begun forward and not finished backward, at most
};

/// Computes how long a step with these orders would take if each pass began as soon as its device
/// and its input were available, and nothing else took time. `costs`: [stage]. A stage defers the
/// gradients of weights of at most `deferred_micro_batches` at a time. A device that has no pass to
/// compute begins one of any stage, and all devices compute those that are left at the end (as
/// StageSlots; Qi et al. 2023, "Zero Bubble Pipeline Parallelism"). Throws kInvalidArgument
/// unless there is one cost for each stage, and if the orders deadlock.
SimulatedStep simulate(const StageOrders& orders, const std::vector<PassCosts>& costs,
                       int deferred_micro_batches = 0);

}  // namespace brigade::concurrency
