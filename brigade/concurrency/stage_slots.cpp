#include "brigade/concurrency/stage_slots.h"

#include <algorithm>

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
  if (options.own_stages == 0 && options.first_stage == 0) return all;
  check_argument(options.chunks == 1 && options.first_stage >= 0 && options.own_stages >= 1 &&
                     options.first_stage + options.own_stages <= options.stages,
                 "Stages ", options.first_stage, " to ",
                 options.first_stage + options.own_stages - 1, " of a pipeline of ", options.stages,
                 " with ", options.chunks, " on each device.");
  return {all.begin() + options.first_stage,
          all.begin() + options.first_stage + options.own_stages};
}

}  // namespace

StageSlots::StageSlots(const StageSlotsOptions& options)
    : options_(options),
      orders_(orders_of(options)),
      granted_(static_cast<std::size_t>(options.micro_batches)) {
  start();
}

void StageSlots::start() {
  const MutexLock lock(mutex_);
  const auto stages = static_cast<std::size_t>(options_.stages);
  Task task;
  std::vector<bool> own(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) own[stage] = is_own(static_cast<int>(stage));
  task.stage = options_.first_stage;
  task.to_come.assign(2, own);
  task.is_live.assign(stages, false);
  tasks_.assign(granted_.size(), task);
  devices_.assign(orders_.size(), Device());
  keeps_schedule_ = true;
  is_aborted_ = false;
  reason_.clear();
}

void StageSlots::begin(int task) {
  const MutexLock lock(mutex_);
  if (!is_own(0)) return;
  ask(task, PassDirection::kForward, 0);
  const Task& own = tasks_[static_cast<std::size_t>(task)];
  while (!own.holds && !is_aborted_) granted_[static_cast<std::size_t>(task)].wait(mutex_);
}

void StageSlots::end(int task) {
  const MutexLock lock(mutex_);
  drop_passes(task);
  leave(task);
}

void StageSlots::acquire(int task) {
  const MutexLock lock(mutex_);
  const Task& own = tasks_[static_cast<std::size_t>(task)];
  ask(task, own.direction, own.is_finished ? options_.first_stage + task % devices() : own.stage);
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
  leave(task);
  // Backward passes go down: those of later stages that have not come do not come any more.
  if (direction == PassDirection::kBackward) {
    std::fill(own.to_come[0].begin(), own.to_come[0].end(), false);
    std::fill(own.to_come[1].begin() + stage + 1, own.to_come[1].end(), false);
    for (int later = stage + 1; later < options_.stages; ++later) forget_activations(task, later);
    grant_all();
  }
  ask(task, direction, stage);
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
  throw Error(ErrorCode::kAborted, "The pipeline's step was given up: ", reason_);
}

void StageSlots::pause(int task) {
  const MutexLock lock(mutex_);
  leave(task);
}

void StageSlots::finish(int task) {
  const MutexLock lock(mutex_);
  drop_passes(task);
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
  Task& own = tasks_[static_cast<std::size_t>(task)];
  const bool is_scheduled = own.to_come[index_of(direction)][static_cast<std::size_t>(stage)];
  own.wait = is_scheduled ? Wait::kForPass : Wait::kForStage;
  own.direction = direction;
  own.stage = stage;
  grant(device_of(stage));
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
    const int stage = options_.first_stage + pass.chunk * devices() + number;
    Task& task = tasks_[static_cast<std::size_t>(pass.micro_batch)];
    auto to_come = task.to_come[index_of(pass.direction)].begin() + stage;
    if (!*to_come) continue;
    const bool is_here =
        task.wait == Wait::kForPass && task.stage == stage && task.direction == pass.direction;
    if (!is_here) return;
    ++device.next;
    device.begun.push_back(pass);
    *to_come = false;
    return give(pass.micro_batch);
  }
}

void StageSlots::give(int task) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  Device& device = devices_[static_cast<std::size_t>(device_of(own.stage))];
  device.is_taken = true;
  device.current = {.work = own.is_finished ? StageWork::kOther : work_of(own.direction),
                    .micro_batch = task,
                    .begin = std::chrono::steady_clock::now(),
                    .end = {}};
  own.wait = Wait::kNone;
  own.holds = true;
  if (own.direction == PassDirection::kForward && !own.is_finished)
    keep_activations(task, own.stage);
  granted_[static_cast<std::size_t>(task)].notify_all();
}

void StageSlots::leave(int task) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  own.wait = Wait::kNone;
  if (!own.holds) return;
  own.holds = false;
  if (own.direction == PassDirection::kBackward) forget_activations(task, own.stage);
  Device& device = devices_[static_cast<std::size_t>(device_of(own.stage))];
  device.is_taken = false;
  device.current.end = std::chrono::steady_clock::now();
  device.spans.push_back(device.current);
  grant(device_of(own.stage));
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
  if (!own.is_live[static_cast<std::size_t>(stage)]) return;
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
