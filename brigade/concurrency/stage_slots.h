#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "brigade/concurrency/execution_slots.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/concurrency/pipeline_schedule.h"
#include "brigade/concurrency/stage_timeline.h"

namespace brigade::concurrency {

struct StageSlotsOptions {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int stages = 1;
  int micro_batches = 1;
  /// With kInterleaved, how many stages each device has: it divides `stages`, and stage s is on
  /// device s % (stages / chunks). With other schedules 1.
  int chunks = 1;
  /// The stages that are computed here, where others are computed by other processes: `own_stages`
  /// of them from `first_stage` on, one on each device. 0: all. Not with several chunks.
  int first_stage = 0;
  int own_stages = 0;
  /// A task that waits longer for a stage throws kDeadlineExceeded.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// The slots of a pipeline: one for each device, which has one stage, or several (kInterleaved).
/// Each micro-batch is a task, whose thread moves from stage to stage and back, and holds the slot
/// of the stage on which it computes.
///
/// A stage computes the passes of `stage_orders` in exactly their order, whichever thread comes
/// first: a pass waits for those before it, even if its stage is idle. Passes that will not come
/// are left out: the rest of a task that has ended or `finish`ed (evaluation has no backward
/// passes).
///
/// Outside of the schedule a task may compute as well: after its last pass (an update), and if it
/// passes through the stages a second time. Such tasks get a stage before the schedule continues,
/// the one with the lowest number first.
///
/// If a task waits for others before its last pass (a collective in the model: synchronized batch
/// norm), the schedule of this step is given up, because the others' passes may come after this
/// task's: from there on a stage computes whatever waits for it, the task with the lowest number
/// first. Nothing else changes, but stages may keep the activations of all micro-batches.
///
/// Thread-safety: see ExecutionSlots. The thread of a task may change: backward passes on GPUs run
/// on autograd's threads.
class StageSlots final : public ExecutionSlots {
 public:
  /// Throws kInvalidArgument as `stage_orders` does.
  explicit StageSlots(const StageSlotsOptions& options);

  void start() override;
  /// Waits for the task's forward pass on the first stage, if that is computed here. Otherwise the
  /// task has no slot until it enters a stage.
  void begin(int task) override;
  void end(int task) override;
  /// After a wait: waits for the stage on which the task was; after `finish` for a stage of device
  /// `task % devices`, so that updates are spread over the devices.
  void acquire(int task) override;
  /// Gives the schedule up if the task is not `finish`ed.
  void release(int task) override;
  void abort(const std::string& reason) override;

  /// Leaves the stage on which the task is, waits for this pass of it on `stage`, and begins it.
  /// Throws kAborted after `abort`, and kDeadlineExceeded, naming the pass for which it waited.
  void enter(int task, PassDirection direction, int stage);
  /// Leaves the stage on which the task is, as between two passes: for what other processes do.
  void pause(int task);
  /// The passes of the task are over: the schedule does not wait for the others.
  void finish(int task);

  /// The stage on which the task is, or was last.
  int stage_of(int task) const;
  const StageOrders& orders() const { return orders_; }
  /// [device]: the passes of the schedule since `start`, in the order in which they began.
  StageOrders passes() const;
  /// [device]: the most micro-batches since `start` whose forward pass had begun and whose backward
  /// pass had not ended: those whose activations the device kept, counted once for each chunk.
  std::vector<int> peak_micro_batches() const;
  /// Who had which device when since `start`: what is computed now is not in it. Costs two readings
  /// of the clock a pass.
  StageTimeline timeline() const;
  /// Whether the schedule was not given up since `start`.
  bool keeps_schedule() const;

 private:
  enum class Wait { kNone, kForPass, kForStage };

  struct Task {
    int stage = 0;
    bool holds = false;  // the slot of the device of `stage`
    Wait wait = Wait::kNone;
    PassDirection direction = PassDirection::kForward;  // of its pass, or of the one awaited
    bool is_finished = false;
    /// [direction][stage]: passes of the schedule that are still to come.
    std::vector<std::vector<bool>> to_come;
    std::vector<bool> is_live;  // [stage]: its activations are kept there
  };
  struct Device {
    std::size_t next = 0;  // in its order
    bool is_taken = false;
    int live = 0, peak = 0;
    std::vector<StagePass> begun;
    StageSpan current;  // if it is taken
    std::vector<StageSpan> spans;
  };

  int devices() const { return static_cast<int>(orders_.size()); }
  int device_of(int stage) const { return (stage - options_.first_stage) % devices(); }
  bool is_own(int stage) const {
    return options_.own_stages == 0 ||
           (stage >= options_.first_stage && stage < options_.first_stage + options_.own_stages);
  }
  /// Gives the device to the next task, if it is free and one may have it.
  void grant(int device) BRIGADE_REQUIRES(mutex_);
  void give(int task) BRIGADE_REQUIRES(mutex_);
  void leave(int task) BRIGADE_REQUIRES(mutex_);
  void grant_all() BRIGADE_REQUIRES(mutex_);
  void drop_passes(int task) BRIGADE_REQUIRES(mutex_);
  void give_schedule_up() BRIGADE_REQUIRES(mutex_);
  void keep_activations(int task, int stage) BRIGADE_REQUIRES(mutex_);
  void forget_activations(int task, int stage) BRIGADE_REQUIRES(mutex_);
  void ask(int task, PassDirection direction, int stage) BRIGADE_REQUIRES(mutex_);
  std::string description(int task) const BRIGADE_REQUIRES(mutex_);

  const StageSlotsOptions options_;
  const StageOrders orders_;
  mutable Mutex mutex_;
  std::vector<Condition> granted_;  // [task]
  std::vector<Task> tasks_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<Device> devices_ BRIGADE_GUARDED_BY(mutex_);
  bool keeps_schedule_ BRIGADE_GUARDED_BY(mutex_) = true;
  bool is_aborted_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::string reason_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::concurrency
