#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/concurrency/deferred_work.h"
#include "brigade/concurrency/execution_slots.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/concurrency/pipeline_schedule.h"
#include "brigade/concurrency/stage_timeline.h"
#include "brigade/concurrency/task_threads.h"

namespace brigade::concurrency {

struct StageSlotsOptions {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int stages = 1;
  int micro_batches = 1;
  /// With kInterleaved, how many stages each device has: it divides `stages`, and stage s is on
  /// device s % (stages / chunks). With other schedules 1.
  int chunks = 1;
  /// The devices that are here, where others are in other processes: `own_devices` of them from
  /// `first_device` on, and the stages on them. 0: all.
  int first_device = 0;
  int own_devices = 0;
  /// Of how many tasks a stage may keep activations for work that their backward passes have
  /// deferred: more of it is done in the pass. 0: nothing is deferred.
  int deferred_tasks = 0;
  /// A task that waits longer for a stage throws kDeadlineExceeded.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Moves the tasks' threads to the devices that they get; null: they stay where they are.
  std::shared_ptr<TaskThreads> threads = nullptr;
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
/// A backward pass may leave work that no other pass waits for, the gradients of weights, to
/// devices that would wait (`defer`), and a task may let them help with what it does now
/// (`share`). A device begins such work when it has no pass to compute, and computes it to its end
/// before the next pass. Each device has a thread for it, which is in `serve`; without these
/// threads nothing is deferred or shared.
///
/// Thread-safety: see ExecutionSlots. The thread of a task may change: backward passes on GPUs run
/// on autograd's threads. One mutex guards everything; work is computed without it.
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

  /// Whether the task's backward pass may `defer` work now: devices can help, the schedule is kept,
  /// and its stage does not keep activations of too many other tasks.
  bool may_defer(int task) const;
  /// Leaves work of the backward pass in which the task is for any device that is idle. Its stage
  /// counts as keeping the task's activations until it is done. `work` is called once, from another
  /// thread, unless the task ends before.
  void defer(int task, std::function<void()> work);
  /// The passes of the task are over, and it needs what it has deferred: leaves its stage, waits
  /// until that is done, and takes a slot as `acquire` does. Throws what the work has thrown, and
  /// as `enter`.
  void complete(int task);
  /// Removes what the task has deferred and nobody computes, and waits for the rest.
  void drop_deferred(int task);
  /// Calls `work(i)` for each i from 0 up to `count`, on this thread and on devices that are idle,
  /// and returns when all are done. A task that is `finish`ed leaves its stage meanwhile, so that
  /// no pass waits, and takes a slot again as `acquire` does. Throws the first error; then some may
  /// have been left out.
  void share(int task, int count, const std::function<void(int)>& work);

  /// Computes what is deferred or shared whenever `device` is idle, until `close`. From one thread
  /// a device.
  void serve(int device);
  /// Waits until all devices are served.
  void wait_until_served();
  /// No device is served any more: `serve` returns. While no task runs.
  void close();

  /// The stage on which the task is, or was last.
  int stage_of(int task) const;
  const StageOrders& orders() const { return orders_; }
  /// [device]: the passes of the schedule since `start`, in the order in which they began.
  StageOrders passes() const;
  /// [device]: the most micro-batches since `start` whose forward pass had begun, and whose
  /// backward pass had not ended or had deferred work that was not done: those whose activations
  /// the device kept, counted once for each chunk.
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
  /// The thread that computes for an idle device.
  struct Server {
    bool is_here = false;
    std::optional<DeferredWork> work;  // that it is to begin
    Condition has_work;
  };

  // Those that are here, which are counted from 0.
  int devices() const { return static_cast<int>(orders_.size()); }
  int all_devices() const { return options_.stages / options_.chunks; }
  int device_of(int stage) const { return stage % all_devices() - options_.first_device; }
  bool is_own(int stage) const { return device_of(stage) >= 0 && device_of(stage) < devices(); }
  /// Gives the device to the next task, if it is free and one may have it.
  void grant(int device) BRIGADE_REQUIRES(mutex_);
  void give(int task) BRIGADE_REQUIRES(mutex_);
  void leave(int task) BRIGADE_REQUIRES(mutex_);
  /// What `leave` does, but for the grant: the device that the task had.
  std::optional<int> free_device(int task) BRIGADE_REQUIRES(mutex_);
  void grant_all() BRIGADE_REQUIRES(mutex_);
  void drop_passes(int task) BRIGADE_REQUIRES(mutex_);
  void give_schedule_up() BRIGADE_REQUIRES(mutex_);
  void keep_activations(int task, int stage) BRIGADE_REQUIRES(mutex_);
  void forget_activations(int task, int stage) BRIGADE_REQUIRES(mutex_);
  void ask(int task, PassDirection direction, int stage) BRIGADE_REQUIRES(mutex_);
  /// What `ask` does, but for the grant.
  void await_slot(int task, PassDirection direction, int stage) BRIGADE_REQUIRES(mutex_);
  void begin_span(Device& device, StageWork work, int task) BRIGADE_REQUIRES(mutex_);
  void end_span(Device& device) BRIGADE_REQUIRES(mutex_);
  /// Gives deferred work to the device, which is free and has no pass to compute now.
  void give_work(int device) BRIGADE_REQUIRES(mutex_);
  void note_done(const DeferredWork& work, std::exception_ptr error) BRIGADE_REQUIRES(mutex_);
  /// Waits for work for the device; nothing after `close`.
  std::optional<DeferredWork> next_work(int device);
  void end_work(int device, DeferredWork work, std::exception_ptr error);
  bool is_served() const BRIGADE_REQUIRES(mutex_);
  bool may_share(int task, int count) const;
  void begin_sharing(int task, int count, const std::function<void(int)>& work);
  void share_own(int task);
  bool has_finished(int task) const;
  void leave_for_deferred(int task);
  void end_sharing(int task);
  void throw_error(int task) BRIGADE_REQUIRES(mutex_);
  [[noreturn]] void throw_aborted() const BRIGADE_REQUIRES(mutex_);
  std::string description(int task) const BRIGADE_REQUIRES(mutex_);

  const StageSlotsOptions options_;
  const StageOrders orders_;
  mutable Mutex mutex_;
  std::vector<Condition> granted_;  // [task]
  std::vector<Task> tasks_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<Device> devices_ BRIGADE_GUARDED_BY(mutex_);
  DeferredQueue deferred_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<Server> servers_ BRIGADE_GUARDED_BY(mutex_);  // [device]
  Condition all_served_;
  bool is_closed_ BRIGADE_GUARDED_BY(mutex_) = false;
  bool keeps_schedule_ BRIGADE_GUARDED_BY(mutex_) = true;
  bool is_aborted_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::string reason_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::concurrency
