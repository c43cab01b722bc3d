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
#include "brigade/concurrency/idle_workers.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/concurrency/pipeline_schedule.h"
#include "brigade/concurrency/stage_recorder.h"
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
  /// The devices of this process, if the pipeline has several processes: `local_devices` of them
  /// from `first_device` on, with the stages on them. 0: all.
  int first_device = 0;
  int local_devices = 0;
  /// The number of tasks whose activations a stage may keep for work that their backward passes
  /// have deferred. Passes after that do such work themselves. 0: nothing is deferred.
  int deferred_tasks = 0;
  /// A task that waits longer for a stage throws kDeadlineExceeded.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Moves the tasks' threads to the devices that they get; null: they stay where they are.
  std::shared_ptr<TaskThreads> threads = nullptr;
};

/// The slots of a pipeline: one for each device, which has one stage, or several (kInterleaved).
/// Each micro-batch is a task, whose thread moves from stage to stage and back. While it computes a
/// stage, it holds the slot of the stage's device.
///
/// A device computes the passes of `stage_orders` in exactly their order, whichever thread arrives
/// first: a pass waits for those before it, even if its device is idle. Passes that a task does not
/// make are skipped: those left when it ends or calls `finish` (evaluation has no backward passes).
///
/// A task may also compute outside of the schedule: after its last pass (an update), and if it
/// passes through the stages a second time. Such tasks get a device before the schedule continues,
/// the lowest-numbered one first.
///
/// If a task waits for others before its last pass (a collective in the model: synchronized batch
/// norm), the schedule of this step is abandoned, because the others' passes may be scheduled after
/// this task's. From then on a device computes whatever waits for it, the lowest-numbered task
/// first. Nothing else changes, but stages may keep the activations of all micro-batches.
///
/// A backward pass may `defer` work that no other pass waits for, the gradients of weights, to
/// devices that are idle, and `parallel_for` divides work that a task needs now between its thread
/// and idle devices. A device begins such work only when it has no pass to compute, and completes
/// it before the next pass. Each device needs a thread for it, in `run_worker`. Without these
/// threads nothing is deferred, and `parallel_for` is a loop.
///
/// Thread-safety: see ExecutionSlots. The thread of a task may change: backward passes on GPUs run
/// on autograd's threads. One mutex guards everything; work is computed without it.
class StageSlots final : public ExecutionSlots {
 public:
  /// Throws kInvalidArgument as `stage_orders` does.
  explicit StageSlots(const StageSlotsOptions& options);

  void start() override;
  /// Waits for the task's forward pass on the first stage, if this process computes it. Otherwise
  /// the task has no slot until it enters a stage.
  void begin(int task) override;
  void end(int task) override;
  /// Waits for the device of the stage that the task was on; after `finish`, for device
  /// `task % devices`, so that updates are spread over the devices.
  void acquire(int task) override;
  /// Abandons the schedule if the task is not `finish`ed.
  void release(int task) override;
  void abort(const std::string& reason) override;

  /// Releases the task's device, waits for this pass of the task on `stage`, and begins it. Throws
  /// kAborted after `abort`, and kDeadlineExceeded, naming the pass that it waited for.
  void enter(int task, PassDirection direction, int stage);
  /// Releases the task's device between two passes, while other processes compute for the task.
  void pause(int task);
  /// The task makes no more passes: the schedule skips those that are left.
  void finish(int task);

  /// Whether the task's backward pass may `defer` work now: the devices have threads for it, the
  /// schedule is followed, and the task's stage keeps few enough activations of other tasks.
  bool may_defer(int task) const;
  /// Queues work of the task's current backward pass for any device that is idle. The task's stage
  /// counts as keeping its activations until the work is done. `work` is called once, on another
  /// thread, unless the task ends before that.
  void defer(int task, std::function<void()> work);
  /// The task makes no more passes, and needs what it has deferred: releases its device, waits
  /// until that work is done, and takes a slot as `acquire` does. Throws what the work has thrown,
  /// and as `enter`.
  void complete_deferred(int task);
  /// Removes the task's deferred work that nobody has begun, and waits for the rest.
  void drop_deferred(int task);
  /// Calls `work(i)` for each i from 0 up to `count`, on this thread and on idle devices, and
  /// returns when all calls are done. A task that is `finish`ed releases its device meanwhile, so
  /// that no pass waits, and takes a slot again as `acquire` does. Throws the first error; some
  /// calls may then have been skipped.
  void parallel_for(int task, int count, const std::function<void(int)>& work);

  /// Computes work for `device` whenever it is idle, until `stop_workers`. From one thread for each
  /// device.
  void run_worker(int device);
  /// Waits until all devices have a thread in `run_worker`.
  void wait_for_workers();
  /// Ends `run_worker`. While no task runs.
  void stop_workers();

  /// The stage that the task is on, or was on last.
  int stage_of(int task) const;
  const StageOrders& orders() const { return orders_; }
  /// [device]: the passes of the schedule since `start`, in the order in which they began.
  StageOrders passes() const;
  /// [device]: the most micro-batches since `start` whose forward pass had begun, and whose
  /// backward pass had not ended or had deferred work that was not done: those whose activations
  /// the device kept, counted once for each chunk.
  std::vector<int> peak_micro_batches() const;
  /// What each device has computed since `start`, and when; without what it computes now. Costs two
  /// readings of the clock per pass.
  StageTimeline timeline() const;
  /// Whether the schedule was not abandoned since `start`.
  bool follows_schedule() const;

 private:
  enum class Request { kNone, kForPass, kForDevice };

  struct Task {
    int stage = 0;
    bool has_slot = false;  // of the device of `stage`
    Request request = Request::kNone;
    PassDirection direction = PassDirection::kForward;  // of its pass, or of the requested one
    bool is_finished = false;
    std::vector<std::vector<bool>> remaining;  // [direction][stage]: passes of the schedule
    std::vector<bool> is_kept;                 // [stage]: its activations
  };
  struct Device {
    std::size_t next = 0;  // in its order
    bool is_busy = false;
  };

  // Devices are those of this process, numbered from 0.
  int devices() const { return static_cast<int>(orders_.size()); }
  int all_devices() const { return options_.stages / options_.chunks; }
  int device_of(int stage) const { return stage % all_devices() - options_.first_device; }
  bool is_local(int stage) const { return device_of(stage) >= 0 && device_of(stage) < devices(); }
  Condition& slot_granted(int task) { return slot_granted_[static_cast<std::size_t>(task)]; }
  Task& at(int task) BRIGADE_REQUIRES(mutex_) { return tasks_[static_cast<std::size_t>(task)]; }
  const Task& at(int task) const BRIGADE_REQUIRES(mutex_) {
    return tasks_[static_cast<std::size_t>(task)];
  }
  Device& device_at(int device) BRIGADE_REQUIRES(mutex_) {
    return devices_[static_cast<std::size_t>(device)];
  }

  void add_request(int task, PassDirection direction, int stage) BRIGADE_REQUIRES(mutex_);
  /// Requests a slot as `acquire` does, and waits for it, or for `abort`.
  void take_slot(int task) BRIGADE_REQUIRES(mutex_);
  void wait_for_slot(int task) BRIGADE_REQUIRES(mutex_);
  /// Gives the device, if it is free, to the next task that may have it, or to deferred work.
  void grant_device(int device) BRIGADE_REQUIRES(mutex_);
  void grant_devices() BRIGADE_REQUIRES(mutex_);
  void grant_slot(int task) BRIGADE_REQUIRES(mutex_);
  void release_slot(int task) BRIGADE_REQUIRES(mutex_);
  /// Releases the slot without granting the device, which it returns.
  std::optional<int> free_slot(int task) BRIGADE_REQUIRES(mutex_);
  void skip_remaining(int task) BRIGADE_REQUIRES(mutex_);
  void abandon_schedule() BRIGADE_REQUIRES(mutex_);
  void keep_activations(int task, int stage) BRIGADE_REQUIRES(mutex_);
  void release_activations(int task, int stage) BRIGADE_REQUIRES(mutex_);

  /// Gives queued work to the worker of a device that is free.
  void assign_work(int device) BRIGADE_REQUIRES(mutex_);
  std::optional<DeferredWork> next_work(int device);
  void end_work(int device, DeferredWork work, std::exception_ptr error);
  void record_end(const DeferredWork& work, std::exception_ptr error) BRIGADE_REQUIRES(mutex_);
  bool has_helpers(int task) const;
  bool is_finished(int task) const;
  void queue_calls(int task, int count, const std::function<void(int)>& work);
  void compute_queued(int task);
  void end_parallel_for(int task);
  void complete_calls_off_device(int task);
  void throw_error(int task) BRIGADE_REQUIRES(mutex_);
  [[noreturn]] void throw_aborted() const BRIGADE_REQUIRES(mutex_);
  std::string describe_wait(int task) const BRIGADE_REQUIRES(mutex_);

  const StageSlotsOptions options_;
  const StageOrders orders_;
  mutable Mutex mutex_;
  std::vector<Condition> slot_granted_;  // [task]; also when its deferred work is done
  std::vector<Task> tasks_ BRIGADE_GUARDED_BY(mutex_);
  std::vector<Device> devices_ BRIGADE_GUARDED_BY(mutex_);
  StageRecorder recorder_ BRIGADE_GUARDED_BY(mutex_);
  DeferredQueue deferred_ BRIGADE_GUARDED_BY(mutex_);
  IdleWorkers workers_ BRIGADE_GUARDED_BY(mutex_);
  bool follows_schedule_ BRIGADE_GUARDED_BY(mutex_) = true;
  bool is_aborted_ BRIGADE_GUARDED_BY(mutex_) = false;
  std::string reason_ BRIGADE_GUARDED_BY(mutex_);
};

}  // namespace brigade::concurrency
