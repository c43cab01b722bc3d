#include "brigade/concurrency/stage_slots.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "brigade/base/error.h"

// What idle devices compute: deferred work, and calls of parallel_for.

namespace brigade::concurrency {

namespace {

std::exception_ptr compute(const DeferredWork& work) {
  try {
    work.compute();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

bool StageSlots::may_defer(int task) const {
  const MutexLock lock(mutex_);
  const Task& own = at(task);
  const bool is_in_backward =
      own.has_slot && !own.is_finished && own.direction == PassDirection::kBackward;
  if (!is_in_backward || !follows_schedule_ || is_aborted_ || !workers_.are_ready()) return false;
  return deferred_.keeps(task, own.stage) || deferred_.kept(own.stage) < options_.deferred_tasks;
}

void StageSlots::defer(int task, std::function<void()> work) {
  const MutexLock lock(mutex_);
  deferred_.push({.kind = StageWork::kWeightGradient,
                  .task = task,
                  .stage = at(task).stage,
                  .compute = std::move(work)});
  grant_devices();
}

void StageSlots::complete_deferred(int task) {
  const MutexLock lock(mutex_);
  throw_error(task);
  if (deferred_.is_done(task)) return;
  skip_remaining(task);
  release_slot(task);
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  while (!deferred_.is_done(task) && !is_aborted_) {
    const bool is_late = !slot_granted(task).wait_until(mutex_, deadline);
    if (!is_late || deferred_.is_done(task) || is_aborted_) continue;
    throw Error(ErrorCode::kDeadlineExceeded, "After ", options_.timeout.count(),
                " ms micro-batch ", task,
                " of the pipeline still waits for gradients of weights that it has left for "
                "stages that are idle.");
  }
  throw_error(task);
  if (is_aborted_) throw_aborted();
  take_slot(task);
}

void StageSlots::drop_deferred(int task) {
  std::vector<DeferredWork> dropped;  // destroyed without the lock
  const MutexLock lock(mutex_);
  dropped = deferred_.remove(task);
  while (!deferred_.is_done(task)) slot_granted(task).wait(mutex_);
  deferred_.take_error(task);
}

void StageSlots::parallel_for(int task, int count, const std::function<void(int)>& work) {
  if (count <= 1 || !has_helpers(task)) {
    for (int i = 0; i < count; ++i) work(i);
    return;
  }
  queue_calls(task, count, work);
  if (is_finished(task)) return complete_calls_off_device(task);
  compute_queued(task);
  end_parallel_for(task);
}

bool StageSlots::has_helpers(int task) const {
  const MutexLock lock(mutex_);
  return workers_.are_ready() && !is_aborted_ && at(task).has_slot;
}

bool StageSlots::is_finished(int task) const {
  const MutexLock lock(mutex_);
  return at(task).is_finished;
}

void StageSlots::queue_calls(int task, int count, const std::function<void(int)>& work) {
  const MutexLock lock(mutex_);
  recorder_.switch_work(device_of(at(task).stage), StageWork::kSum, task);
  for (int i = 0; i < count; ++i) {
    deferred_.push({.kind = StageWork::kSum,
                    .task = task,
                    .stage = DeferredWork::kNoStage,
                    .compute = [&work, i] { work(i); }});
  }
  grant_devices();
}

void StageSlots::compute_queued(int task) {
  for (;;) {
    std::optional<DeferredWork> work;
    {
      const MutexLock lock(mutex_);
      work = deferred_.pop_of(task);
    }
    if (!work) return;
    const std::exception_ptr error = compute(*work);
    const MutexLock lock(mutex_);
    record_end(*work, error);
    if (error) deferred_.remove(task);
  }
}

void StageSlots::end_parallel_for(int task) {
  const MutexLock lock(mutex_);
  const Task& own = at(task);
  while (!deferred_.is_done(task)) slot_granted(task).wait(mutex_);
  recorder_.switch_work(device_of(own.stage),
                        own.is_finished ? StageWork::kOther : work_of(own.direction), task);
  throw_error(task);
}

// The queued calls refer to the caller's `work`: so even after an error none is left when this
// returns.
void StageSlots::complete_calls_off_device(int task) {
  std::vector<DeferredWork> dropped;
  const MutexLock lock(mutex_);
  release_slot(task);
  while (!deferred_.is_done(task)) {
    if (is_aborted_ || !workers_.are_ready())
      std::ranges::move(deferred_.remove(task), std::back_inserter(dropped));
    if (!deferred_.is_done(task)) slot_granted(task).wait(mutex_);
  }
  take_slot(task);
  throw_error(task);
  if (!dropped.empty()) throw_aborted();
}

void StageSlots::run_worker(int device) {
  while (std::optional<DeferredWork> work = next_work(device)) {
    std::exception_ptr error = compute(*work);
    // Moved: the task's thread may throw the error and destroy it while this thread continues.
    end_work(device, std::move(*work), std::move(error));
  }
}

void StageSlots::wait_for_workers() {
  const MutexLock lock(mutex_);
  workers_.wait_until_ready(mutex_);
}

void StageSlots::stop_workers() {
  const MutexLock lock(mutex_);
  workers_.stop();
}

std::optional<DeferredWork> StageSlots::next_work(int device) {
  const MutexLock lock(mutex_);
  return workers_.next(device, mutex_);
}

void StageSlots::assign_work(int device) {
  if (deferred_.empty() || !workers_.are_ready() || is_aborted_) return;
  DeferredWork work = deferred_.pop();
  device_at(device).is_busy = true;
  recorder_.begin_work(device, work.kind, work.task);
  workers_.assign(device, std::move(work));
}

void StageSlots::end_work(int device, DeferredWork work, std::exception_ptr error) {
  work.compute = nullptr;  // releases what it holds before its task continues
  const MutexLock lock(mutex_);
  device_at(device).is_busy = false;
  recorder_.end_work(device);
  record_end(work, std::move(error));
  grant_device(device);
}

void StageSlots::record_end(const DeferredWork& work, std::exception_ptr error) {
  deferred_.done(work, std::move(error));
  const Task& task = at(work.task);
  const bool has_left = task.is_finished || !task.has_slot || task.stage != work.stage;
  if (work.stage != DeferredWork::kNoStage && has_left) release_activations(work.task, work.stage);
  if (deferred_.is_done(work.task)) slot_granted(work.task).notify_all();
}

void StageSlots::throw_error(int task) {
  if (const std::exception_ptr error = deferred_.take_error(task)) std::rethrow_exception(error);
}

}  // namespace brigade::concurrency
