#include "brigade/concurrency/stage_slots.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::concurrency {

namespace {

std::size_t index_of(PassDirection direction) {
  return direction == PassDirection::kForward ? 0 : 1;
}

StageWork work_of(PassDirection direction) {
  return direction == PassDirection::kForward ? StageWork::kForward : StageWork::kBackward;
}

std::string text_of(PassDirection direction, int micro_batch) {
  return base::str_cat("the ", direction == PassDirection::kForward ? "forward" : "backward",
                       " pass of micro-batch ", micro_batch);
}

/// Checked here, since a number of devices follows from it.
StageOrders orders_of(const StageSlotsOptions& options) {
  check_argument(options.chunks >= 1 && options.stages % options.chunks == 0, "A pipeline of ",
                 options.stages, " stages with ", options.chunks,
                 " on each device: the devices have equally many.");
  StageOrders all = stage_orders(options.schedule, options.stages / options.chunks,
                                 options.micro_batches, options.chunks);
  if (options.own_devices == 0 && options.first_device == 0) return all;
  const int devices = options.stages / options.chunks;
  check_argument(options.first_device >= 0 && options.own_devices >= 1 &&
                     options.first_device + options.own_devices <= devices,
                 "Devices ", options.first_device, " to ",
                 options.first_device + options.own_devices - 1, " of a pipeline of ", devices,
                 ".");
  return {all.begin() + options.first_device,
          all.begin() + options.first_device + options.own_devices};
}

}  // namespace

StageSlots::StageSlots(const StageSlotsOptions& options)
    : options_(options),
      orders_(orders_of(options)),
      granted_(static_cast<std::size_t>(options.micro_batches)),
      deferred_(options.micro_batches, options.stages),
      servers_(orders_.size()) {
  start();
}

void StageSlots::start() {
  const MutexLock lock(mutex_);
  const auto stages = static_cast<std::size_t>(options_.stages);
  Task task;
  std::vector<bool> own(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) own[stage] = is_own(static_cast<int>(stage));
  task.stage = options_.first_device;
  task.to_come.assign(2, own);
  task.is_live.assign(stages, false);
  tasks_.assign(granted_.size(), task);
  devices_.assign(orders_.size(), Device());
  deferred_.remove_all();
  keeps_schedule_ = true;
  is_aborted_ = false;
  reason_.clear();
}

void StageSlots::begin(int task) {
  if (options_.threads) options_.threads->begin(task);
  const MutexLock lock(mutex_);
  if (!is_own(0)) return;
  ask(task, PassDirection::kForward, 0);
  const Task& own = tasks_[static_cast<std::size_t>(task)];
  while (!own.holds && !is_aborted_) granted_[static_cast<std::size_t>(task)].wait(mutex_);
}

void StageSlots::end(int task) {
  {
    const MutexLock lock(mutex_);
    drop_passes(task);
    leave(task);
  }
  if (options_.threads) options_.threads->end(task);
}

void StageSlots::acquire(int task) {
  const MutexLock lock(mutex_);
  const Task& own = tasks_[static_cast<std::size_t>(task)];
  ask(task, own.direction, own.is_finished ? options_.first_device + task % devices() : own.stage);
  while (!own.holds && !is_aborted_) granted_[static_cast<std::size_t>(task)].wait(mutex_);
}

void StageSlots::release(int task) {
  const MutexLock lock(mutex_);
  if (!tasks_[static_cast<std::size_t>(task)].is_finished) give_schedule_up();
  leave(task);
}

void StageSlots::abort(const std::string& reason) {
  const MutexLock lock(mutex_);
  if (!is_aborted_) reason_ = reason;
  is_aborted_ = true;
  for (Condition& granted : granted_) granted.notify_all();
}

void StageSlots::enter(int task, PassDirection direction, int stage) {
  const MutexLock lock(mutex_);
  Task& own = tasks_[static_cast<std::size_t>(task)];
  const std::optional<int> left = free_device(task);
  // Backward passes go down: those of later stages that have not come do not come any more.
  if (direction == PassDirection::kBackward) {
    std::fill(own.to_come[0].begin(), own.to_come[0].end(), false);
    std::fill(own.to_come[1].begin() + stage + 1, own.to_come[1].end(), false);
    for (int later = stage + 1; later < options_.stages; ++later) forget_activations(task, later);
  }
  // First what the task waits for, so that its device does not begin deferred work before it.
  await_slot(task, direction, stage);
  if (direction == PassDirection::kBackward) {
    grant_all();
  } else {
    if (left) grant(*left);
    grant(device_of(stage));
  }
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  while (!own.holds && !is_aborted_) {
    const bool is_late = !granted_[static_cast<std::size_t>(task)].wait_until(mutex_, deadline);
    if (!is_late || own.holds || is_aborted_) continue;
    const std::string text = description(task);
    own.wait = Wait::kNone;
    throw Error(ErrorCode::kDeadlineExceeded, text);
  }
  if (!is_aborted_) return;
  own.wait = Wait::kNone;
  throw_aborted();
}

void StageSlots::pause(int task) {
  const MutexLock lock(mutex_);
  leave(task);
}

void StageSlots::finish(int task) {
  const MutexLock lock(mutex_);
  drop_passes(task);
}

bool StageSlots::may_defer(int task) const {
  const MutexLock lock(mutex_);
  const Task& own = tasks_[static_cast<std::size_t>(task)];
  const bool is_in_backward =
      own.holds && !own.is_finished && own.direction == PassDirection::kBackward;
  if (!is_in_backward || !keeps_schedule_ || is_aborted_ || !is_served()) return false;
  return deferred_.keeps(task, own.stage) || deferred_.kept(own.stage) < options_.deferred_tasks;
}

void StageSlots::defer(int task, std::function<void()> work) {
  const MutexLock lock(mutex_);
  deferred_.push({.kind = StageWork::kWeightGradient,
                  .task = task,
                  .stage = tasks_[static_cast<std::size_t>(task)].stage,
                  .compute = std::move(work)});
  grant_all();
}

void StageSlots::complete(int task) {
  const MutexLock lock(mutex_);
  throw_error(task);
  if (deferred_.is_done(task)) return;
  Task& own = tasks_[static_cast<std::size_t>(task)];
  Condition& granted = granted_[static_cast<std::size_t>(task)];
  drop_passes(task);
  leave(task);
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  while (!deferred_.is_done(task) && !is_aborted_) {
    const bool is_late = !granted.wait_until(mutex_, deadline);
    if (!is_late || deferred_.is_done(task) || is_aborted_) continue;
    throw Error(ErrorCode::kDeadlineExceeded, "After ", options_.timeout.count(),
                " ms micro-batch ", task,
                " of the pipeline still waits for gradients of weights that it has left for "
                "stages that are idle.");
  }
  throw_error(task);
  if (is_aborted_) throw_aborted();
  ask(task, own.direction, options_.first_device + task % devices());
  while (!own.holds && !is_aborted_) granted.wait(mutex_);
}

void StageSlots::drop_deferred(int task) {
  std::vector<DeferredWork> dropped;  // destroyed without the lock
  const MutexLock lock(mutex_);
  dropped = deferred_.remove(task);
  while (!deferred_.is_done(task)) granted_[static_cast<std::size_t>(task)].wait(mutex_);
  deferred_.take_error(task);
}

void StageSlots::share(int task, int count, const std::function<void(int)>& work) {
  if (!may_share(task, count)) {
    for (int i = 0; i < count; ++i) work(i);
    return;
  }
  begin_sharing(task, count, work);
  if (has_finished(task)) {
    // Its stage makes passes meanwhile, which others wait for.
    leave_for_deferred(task);
    return;
  }
  share_own(task);
  end_sharing(task);
}

bool StageSlots::has_finished(int task) const {
  const MutexLock lock(mutex_);
  return tasks_[static_cast<std::size_t>(task)].is_finished;
}

/// `work` of `share` is the caller's: it is not left before nobody computes it.
void StageSlots::leave_for_deferred(int task) {
  std::vector<DeferredWork> dropped;
  const MutexLock lock(mutex_);
  Condition& granted = granted_[static_cast<std::size_t>(task)];
  leave(task);
  while (!deferred_.is_done(task)) {
    if (is_aborted_ || !is_served())
      std::ranges::move(deferred_.remove(task), std::back_inserter(dropped));
    if (!deferred_.is_done(task)) granted.wait(mutex_);
  }
  const Task& own = tasks_[static_cast<std::size_t>(task)];
  ask(task, own.direction, options_.first_device + task % devices());
  while (!own.holds && !is_aborted_) granted.wait(mutex_);
  throw_error(task);
  if (!dropped.empty()) throw_aborted();
}

bool StageSlots::may_share(int task, int count) const {
  const MutexLock lock(mutex_);
  return count > 1 && is_served() && !is_aborted_ && tasks_[static_cast<std::size_t>(task)].holds;
}

void StageSlots::begin_sharing(int task, int count, const std::function<void(int)>& work) {
  const MutexLock lock(mutex_);
  Device& device =
      devices_[static_cast<std::size_t>(device_of(tasks_[static_cast<std::size_t>(task)].stage))];
  end_span(device);
  begin_span(device, StageWork::kSum, task);
  for (int i = 0; i < count; ++i) {
    deferred_.push({.kind = StageWork::kSum,
                    .task = task,
                    .stage = DeferredWork::kNoStage,
                    .compute = [&work, i] { work(i); }});
  }
  grant_all();
}

void StageSlots::share_own(int task) {
  for (;;) {
    std::optional<DeferredWork> work;
    {
      const MutexLock lock(mutex_);
      work = deferred_.pop_of(task);
    }
    if (!work) return;
    std::exception_ptr error;
    try {
      work->compute();
    } catch (...) {
      error = std::current_exception();
    }
    const MutexLock lock(mutex_);
    note_done(*work, error);
    if (error) deferred_.remove(task);
  }
}

void StageSlots::end_sharing(int task) {
  const MutexLock lock(mutex_);
  Task& own = tasks_[static_cast<std::size_t>(task)];
  while (!deferred_.is_done(task)) granted_[static_cast<std::size_t>(task)].wait(mutex_);
  Device& device = devices_[static_cast<std::size_t>(device_of(own.stage))];
  end_span(device);
  begin_span(device, own.is_finished ? StageWork::kOther : work_of(own.direction), task);
  throw_error(task);
}

void StageSlots::serve(int number) {
  while (std::optional<DeferredWork> work = next_work(number)) {
    std::exception_ptr error;
    try {
      work->compute();
    } catch (...) {
      error = std::current_exception();
    }
    // The task's thread may throw and destroy the error while this one goes on.
    end_work(number, std::move(*work), std::move(error));
  }
}

std::optional<DeferredWork> StageSlots::next_work(int number) {
  const MutexLock lock(mutex_);
  Server& server = servers_[static_cast<std::size_t>(number)];
  server.is_here = true;
  all_served_.notify_all();
  while (!server.work && !is_closed_) server.has_work.wait(mutex_);
  return std::exchange(server.work, std::nullopt);
}

void StageSlots::wait_until_served() {
  const MutexLock lock(mutex_);
  while (!is_served()) all_served_.wait(mutex_);
}

void StageSlots::close() {
  const MutexLock lock(mutex_);
  is_closed_ = true;
  for (Server& server : servers_) server.has_work.notify_all();
}

int StageSlots::stage_of(int task) const {
  const MutexLock lock(mutex_);
  return tasks_[static_cast<std::size_t>(task)].stage;
}

StageOrders StageSlots::passes() const {
  const MutexLock lock(mutex_);
  StageOrders all;
  for (const Device& device : devices_) all.push_back(device.begun);
  return all;
}

std::vector<int> StageSlots::peak_micro_batches() const {
  const MutexLock lock(mutex_);
  std::vector<int> peaks;
  for (const Device& device : devices_) peaks.push_back(device.peak);
  return peaks;
}

StageTimeline StageSlots::timeline() const {
  const MutexLock lock(mutex_);
  StageTimeline timeline;
  for (const Device& device : devices_) timeline.stages.push_back(device.spans);
  return timeline;
}

bool StageSlots::keeps_schedule() const {
  const MutexLock lock(mutex_);
  return keeps_schedule_;
}

void StageSlots::ask(int task, PassDirection direction, int stage) {
  await_slot(task, direction, stage);
  grant(device_of(stage));
}

void StageSlots::await_slot(int task, PassDirection direction, int stage) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  const bool is_scheduled = own.to_come[index_of(direction)][static_cast<std::size_t>(stage)];
  own.wait = is_scheduled ? Wait::kForPass : Wait::kForStage;
  own.direction = direction;
  own.stage = stage;
}

void StageSlots::grant(int number) {
  Device& device = devices_[static_cast<std::size_t>(number)];
  if (device.is_taken) return;
  for (std::size_t task = 0; task < tasks_.size(); ++task) {
    if (tasks_[task].wait == Wait::kForStage && device_of(tasks_[task].stage) == number)
      return give(static_cast<int>(task));
  }
  const std::vector<StagePass>& order = orders_[static_cast<std::size_t>(number)];
  for (; device.next < order.size(); ++device.next) {
    const StagePass& pass = order[device.next];
    const int stage = pass.chunk * all_devices() + options_.first_device + number;
    Task& task = tasks_[static_cast<std::size_t>(pass.micro_batch)];
    auto to_come = task.to_come[index_of(pass.direction)].begin() + stage;
    if (!*to_come) continue;
    const bool is_here =
        task.wait == Wait::kForPass && task.stage == stage && task.direction == pass.direction;
    if (!is_here) break;
    ++device.next;
    device.begun.push_back(pass);
    *to_come = false;
    return give(pass.micro_batch);
  }
  give_work(number);
}

void StageSlots::give(int task) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  Device& device = devices_[static_cast<std::size_t>(device_of(own.stage))];
  device.is_taken = true;
  begin_span(device, own.is_finished ? StageWork::kOther : work_of(own.direction), task);
  own.wait = Wait::kNone;
  own.holds = true;
  if (own.direction == PassDirection::kForward && !own.is_finished)
    keep_activations(task, own.stage);
  if (options_.threads) options_.threads->move(task, device_of(own.stage));
  granted_[static_cast<std::size_t>(task)].notify_all();
}

void StageSlots::leave(int task) {
  if (const std::optional<int> left = free_device(task)) grant(*left);
}

std::optional<int> StageSlots::free_device(int task) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  own.wait = Wait::kNone;
  if (!own.holds) return std::nullopt;
  own.holds = false;
  if (own.direction == PassDirection::kBackward) forget_activations(task, own.stage);
  const int number = device_of(own.stage);
  Device& device = devices_[static_cast<std::size_t>(number)];
  device.is_taken = false;
  end_span(device);
  return number;
}

void StageSlots::begin_span(Device& device, StageWork work, int task) {
  device.current = {
      .work = work, .micro_batch = task, .begin = std::chrono::steady_clock::now(), .end = {}};
}

void StageSlots::end_span(Device& device) {
  device.current.end = std::chrono::steady_clock::now();
  device.spans.push_back(device.current);
}

void StageSlots::give_work(int number) {
  Device& device = devices_[static_cast<std::size_t>(number)];
  if (deferred_.empty() || !is_served() || is_aborted_) return;
  Server& server = servers_[static_cast<std::size_t>(number)];
  server.work = deferred_.pop();
  device.is_taken = true;
  begin_span(device, server.work->kind, server.work->task);
  server.has_work.notify_all();
}

void StageSlots::end_work(int number, DeferredWork work, std::exception_ptr error) {
  work.compute = nullptr;  // what it holds is released before its task goes on
  const MutexLock lock(mutex_);
  Device& device = devices_[static_cast<std::size_t>(number)];
  device.is_taken = false;
  end_span(device);
  note_done(work, std::move(error));
  grant(number);
}

void StageSlots::note_done(const DeferredWork& work, std::exception_ptr error) {
  deferred_.done(work, std::move(error));
  const Task& task = tasks_[static_cast<std::size_t>(work.task)];
  const bool has_left = task.is_finished || !task.holds || task.stage != work.stage;
  if (work.stage != DeferredWork::kNoStage && has_left) forget_activations(work.task, work.stage);
  if (deferred_.is_done(work.task)) granted_[static_cast<std::size_t>(work.task)].notify_all();
}

bool StageSlots::is_served() const {
  return !is_closed_ && std::ranges::all_of(servers_, &Server::is_here);
}

void StageSlots::throw_error(int task) {
  if (const std::exception_ptr error = deferred_.take_error(task)) std::rethrow_exception(error);
}

void StageSlots::throw_aborted() const {
  throw Error(ErrorCode::kAborted, "The pipeline's step was given up: ", reason_);
}

void StageSlots::keep_activations(int task, int number) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  if (own.is_live[static_cast<std::size_t>(number)]) return;
  own.is_live[static_cast<std::size_t>(number)] = true;
  Device& device = devices_[static_cast<std::size_t>(device_of(number))];
  device.peak = std::max(device.peak, ++device.live);
}

void StageSlots::forget_activations(int task, int stage) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  const bool is_kept = deferred_.keeps(task, stage);
  if (!own.is_live[static_cast<std::size_t>(stage)] || is_kept) return;
  own.is_live[static_cast<std::size_t>(stage)] = false;
  --devices_[static_cast<std::size_t>(device_of(stage))].live;
}

void StageSlots::drop_passes(int task) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  own.is_finished = true;
  for (auto& of_direction : own.to_come) std::fill(of_direction.begin(), of_direction.end(), false);
  for (int stage = 0; stage < options_.stages; ++stage) forget_activations(task, stage);
  grant_all();
}

void StageSlots::give_schedule_up() {
  keeps_schedule_ = false;
  for (Task& task : tasks_) {
    for (auto& of_direction : task.to_come)
      std::fill(of_direction.begin(), of_direction.end(), false);
    if (task.wait == Wait::kForPass) task.wait = Wait::kForStage;
  }
  grant_all();
}

void StageSlots::grant_all() {
  for (int device = 0; device < devices(); ++device) grant(device);
}

std::string StageSlots::description(int task) const {
  const Task& own = tasks_[static_cast<std::size_t>(task)];
  const auto number = static_cast<std::size_t>(device_of(own.stage));
  const Device& device = devices_[number];
  std::string text =
      base::str_cat("After ", options_.timeout.count(), " ms ", text_of(own.direction, task),
                    " still waits for stage ", own.stage, " of the pipeline, ");
  for (std::size_t other = 0; other < tasks_.size(); ++other) {
    const Task& holder = tasks_[other];
    if (holder.holds && device_of(holder.stage) == device_of(own.stage))
      return text + base::str_cat("which computes ",
                                  text_of(holder.direction, static_cast<int>(other)), ".");
  }
  const auto& order = orders_[number];
  if (device.next == order.size()) return text + "which is free.";
  const StagePass& next = order[device.next];
  return text + base::str_cat("which waits for ", text_of(next.direction, next.micro_batch), ".");
}

}  // namespace brigade::concurrency
