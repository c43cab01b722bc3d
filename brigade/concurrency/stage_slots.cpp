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

/// Checks the options first, since the number of devices follows from them.
StageOrders orders_of(const StageSlotsOptions& options) {
  check_argument(options.chunks >= 1 && options.stages % options.chunks == 0, "A pipeline of ",
                 options.stages, " stages with ", options.chunks,
                 " on each device: the devices have equally many.");
  StageOrders all = stage_orders(options.schedule, options.stages / options.chunks,
                                 options.micro_batches, options.chunks);
  if (options.local_devices == 0 && options.first_device == 0) return all;
  const int devices = options.stages / options.chunks;
  check_argument(options.first_device >= 0 && options.local_devices >= 1 &&
                     options.first_device + options.local_devices <= devices,
                 "Devices ", options.first_device, " to ",
                 options.first_device + options.local_devices - 1, " of a pipeline of ", devices,
                 ".");
  return {all.begin() + options.first_device,
          all.begin() + options.first_device + options.local_devices};
}

}  // namespace

StageSlots::StageSlots(const StageSlotsOptions& options)
    : options_(options),
      orders_(orders_of(options)),
      slot_granted_(static_cast<std::size_t>(options.micro_batches)),
      recorder_(devices()),
      deferred_(options.micro_batches, options.stages),
      workers_(devices()) {
  start();
}

void StageSlots::start() {
  const MutexLock lock(mutex_);
  const auto stages = static_cast<std::size_t>(options_.stages);
  std::vector<bool> local(stages);
  for (std::size_t stage = 0; stage < stages; ++stage)
    local[stage] = is_local(static_cast<int>(stage));
  Task task;
  task.stage = options_.first_device;
  task.remaining.assign(2, local);
  task.is_kept.assign(stages, false);
  tasks_.assign(slot_granted_.size(), task);
  devices_.assign(orders_.size(), Device());
  recorder_.reset();
  deferred_.remove_all();
  follows_schedule_ = true;
  is_aborted_ = false;
  reason_.clear();
}

void StageSlots::begin(int task) {
  if (options_.threads) options_.threads->begin(task);
  const MutexLock lock(mutex_);
  if (!is_local(0)) return;
  add_request(task, PassDirection::kForward, 0);
  grant_device(device_of(0));
  wait_for_slot(task);
}

void StageSlots::end(int task) {
  {
    const MutexLock lock(mutex_);
    skip_remaining(task);
    release_slot(task);
  }
  if (options_.threads) options_.threads->end(task);
}

void StageSlots::acquire(int task) {
  const MutexLock lock(mutex_);
  take_slot(task);
}

void StageSlots::release(int task) {
  const MutexLock lock(mutex_);
  if (!at(task).is_finished) abandon_schedule();
  release_slot(task);
}

void StageSlots::abort(const std::string& reason) {
  const MutexLock lock(mutex_);
  if (!is_aborted_) reason_ = reason;
  is_aborted_ = true;
  for (Condition& granted : slot_granted_) granted.notify_all();
}

void StageSlots::enter(int task, PassDirection direction, int stage) {
  const MutexLock lock(mutex_);
  Task& own = at(task);
  free_slot(task);
  // Backward passes go from the last stage to the first: what is left of later ones is skipped.
  if (direction == PassDirection::kBackward) {
    std::fill(own.remaining[0].begin(), own.remaining[0].end(), false);
    std::fill(own.remaining[1].begin() + stage + 1, own.remaining[1].end(), false);
    for (int later = stage + 1; later < options_.stages; ++later) release_activations(task, later);
  }
  // Before any device is granted, so that the requested one does not begin deferred work first.
  add_request(task, direction, stage);
  grant_devices();
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  while (!own.has_slot && !is_aborted_) {
    const bool is_late = !slot_granted(task).wait_until(mutex_, deadline);
    if (!is_late || own.has_slot || is_aborted_) continue;
    const std::string text = describe_wait(task);
    own.request = Request::kNone;
    throw Error(ErrorCode::kDeadlineExceeded, text);
  }
  if (!is_aborted_) return;
  own.request = Request::kNone;
  throw_aborted();
}

void StageSlots::pause(int task) {
  const MutexLock lock(mutex_);
  release_slot(task);
}

void StageSlots::finish(int task) {
  const MutexLock lock(mutex_);
  skip_remaining(task);
}

int StageSlots::stage_of(int task) const {
  const MutexLock lock(mutex_);
  return at(task).stage;
}

StageOrders StageSlots::passes() const {
  const MutexLock lock(mutex_);
  return recorder_.passes();
}

std::vector<int> StageSlots::peak_micro_batches() const {
  const MutexLock lock(mutex_);
  return recorder_.peak_micro_batches();
}

StageTimeline StageSlots::timeline() const {
  const MutexLock lock(mutex_);
  return recorder_.timeline();
}

bool StageSlots::follows_schedule() const {
  const MutexLock lock(mutex_);
  return follows_schedule_;
}

void StageSlots::add_request(int task, PassDirection direction, int stage) {
  Task& own = at(task);
  const bool is_scheduled = own.remaining[index_of(direction)][static_cast<std::size_t>(stage)];
  own.request = is_scheduled ? Request::kForPass : Request::kForDevice;
  own.direction = direction;
  own.stage = stage;
}

void StageSlots::take_slot(int task) {
  const Task& own = at(task);
  const int stage = own.is_finished ? options_.first_device + task % devices() : own.stage;
  add_request(task, own.direction, stage);
  grant_device(device_of(stage));
  wait_for_slot(task);
}

void StageSlots::wait_for_slot(int task) {
  while (!at(task).has_slot && !is_aborted_) slot_granted(task).wait(mutex_);
}

void StageSlots::grant_device(int number) {
  Device& device = device_at(number);
  if (device.is_busy) return;
  for (int task = 0; task < options_.micro_batches; ++task) {
    if (at(task).request == Request::kForDevice && device_of(at(task).stage) == number)
      return grant_slot(task);
  }
  const std::vector<StagePass>& order = orders_[static_cast<std::size_t>(number)];
  for (; device.next < order.size(); ++device.next) {
    const StagePass& pass = order[device.next];
    const int stage = pass.chunk * all_devices() + options_.first_device + number;
    Task& task = at(pass.micro_batch);
    auto is_remaining = task.remaining[index_of(pass.direction)].begin() + stage;
    if (!*is_remaining) continue;
    const bool is_requested = task.request == Request::kForPass && task.stage == stage &&
                              task.direction == pass.direction;
    if (!is_requested) break;
    ++device.next;
    recorder_.add_pass(number, pass);
    *is_remaining = false;
    return grant_slot(pass.micro_batch);
  }
  assign_work(number);
}

void StageSlots::grant_devices() {
  for (int device = 0; device < devices(); ++device) grant_device(device);
}

void StageSlots::grant_slot(int task) {
  Task& own = at(task);
  const int device = device_of(own.stage);
  device_at(device).is_busy = true;
  recorder_.begin_work(device, own.is_finished ? StageWork::kOther : work_of(own.direction), task);
  own.request = Request::kNone;
  own.has_slot = true;
  if (own.direction == PassDirection::kForward && !own.is_finished)
    keep_activations(task, own.stage);
  if (options_.threads) options_.threads->move(task, device);
  slot_granted(task).notify_all();
}

void StageSlots::release_slot(int task) {
  if (const std::optional<int> freed = free_slot(task)) grant_device(*freed);
}

std::optional<int> StageSlots::free_slot(int task) {
  Task& own = at(task);
  own.request = Request::kNone;
  if (!own.has_slot) return std::nullopt;
  own.has_slot = false;
  if (own.direction == PassDirection::kBackward) release_activations(task, own.stage);
  const int device = device_of(own.stage);
  device_at(device).is_busy = false;
  recorder_.end_work(device);
  return device;
}

void StageSlots::skip_remaining(int task) {
  Task& own = at(task);
  own.is_finished = true;
  for (auto& of_direction : own.remaining)
    std::fill(of_direction.begin(), of_direction.end(), false);
  for (int stage = 0; stage < options_.stages; ++stage) release_activations(task, stage);
  grant_devices();
}

void StageSlots::abandon_schedule() {
  follows_schedule_ = false;
  for (Task& task : tasks_) {
    for (auto& of_direction : task.remaining)
      std::fill(of_direction.begin(), of_direction.end(), false);
    if (task.request == Request::kForPass) task.request = Request::kForDevice;
  }
  grant_devices();
}

void StageSlots::keep_activations(int task, int stage) {
  Task& own = at(task);
  if (own.is_kept[static_cast<std::size_t>(stage)]) return;
  own.is_kept[static_cast<std::size_t>(stage)] = true;
  recorder_.keep_activations(device_of(stage));
}

void StageSlots::release_activations(int task, int stage) {
  Task& own = at(task);
  const bool is_needed = deferred_.keeps(task, stage);
  if (!own.is_kept[static_cast<std::size_t>(stage)] || is_needed) return;
  own.is_kept[static_cast<std::size_t>(stage)] = false;
  recorder_.release_activations(device_of(stage));
}

void StageSlots::throw_aborted() const {
  throw Error(ErrorCode::kAborted, "The pipeline's step was given up: ", reason_);
}

std::string StageSlots::describe_wait(int task) const {
  const Task& own = at(task);
  const auto number = static_cast<std::size_t>(device_of(own.stage));
  const Device& device = devices_[number];
  std::string text =
      base::str_cat("After ", options_.timeout.count(), " ms ", text_of(own.direction, task),
                    " still waits for stage ", own.stage, " of the pipeline, ");
  for (std::size_t other = 0; other < tasks_.size(); ++other) {
    const Task& holder = tasks_[other];
    if (holder.has_slot && device_of(holder.stage) == device_of(own.stage))
      return text + base::str_cat("which computes ",
                                  text_of(holder.direction, static_cast<int>(other)), ".");
  }
  const auto& order = orders_[number];
  if (device.next == order.size()) return text + "which is free.";
  const StagePass& next = order[device.next];
  return text + base::str_cat("which waits for ", text_of(next.direction, next.micro_batch), ".");
}

}  // namespace brigade::concurrency
