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

}  // namespace

StageSlots::StageSlots(const StageSlotsOptions& options)
    : options_(options),
      orders_(stage_orders(options.schedule, options.stages, options.micro_batches)),
      granted_(static_cast<std::size_t>(options.micro_batches)) {
  start();
}

void StageSlots::start() {
  const MutexLock lock(mutex_);
  const auto stages = static_cast<std::size_t>(options_.stages);
  Task task;
  task.to_come.assign(2, std::vector<bool>(stages, true));
  task.is_live.assign(stages, false);
  tasks_.assign(granted_.size(), task);
  stages_.assign(stages, Stage());
  keeps_schedule_ = true;
  is_aborted_ = false;
  reason_.clear();
}

void StageSlots::begin(int task) {
  const MutexLock lock(mutex_);
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
  ask(task, own.direction, own.is_finished ? task % options_.stages : own.stage);
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
  throw Error(ErrorCode::kAborted, base::str_cat("The pipeline's step was given up: ", reason_));
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
  for (const Stage& stage : stages_) all.push_back(stage.begun);
  return all;
}

std::vector<int> StageSlots::peak_micro_batches() const {
  const MutexLock lock(mutex_);
  std::vector<int> peaks;
  for (const Stage& stage : stages_) peaks.push_back(stage.peak);
  return peaks;
}

StageTimeline StageSlots::timeline() const {
  const MutexLock lock(mutex_);
  StageTimeline timeline;
  for (const Stage& stage : stages_) timeline.stages.push_back(stage.spans);
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
  grant(stage);
}

void StageSlots::grant(int number) {
  Stage& stage = stages_[static_cast<std::size_t>(number)];
  if (stage.is_taken) return;
  for (std::size_t task = 0; task < tasks_.size(); ++task) {
    if (tasks_[task].wait == Wait::kForStage && tasks_[task].stage == number)
      return give(static_cast<int>(task), number);
  }
  const std::vector<StagePass>& order = orders_[static_cast<std::size_t>(number)];
  for (; stage.next < order.size(); ++stage.next) {
    const StagePass& pass = order[stage.next];
    Task& task = tasks_[static_cast<std::size_t>(pass.micro_batch)];
    auto to_come = task.to_come[index_of(pass.direction)].begin() + number;
    if (!*to_come) continue;
    const bool is_here =
        task.wait == Wait::kForPass && task.stage == number && task.direction == pass.direction;
    if (!is_here) return;
    ++stage.next;
    stage.begun.push_back(pass);
    *to_come = false;
    return give(pass.micro_batch, number);
  }
}

void StageSlots::give(int task, int number) {
  Stage& stage = stages_[static_cast<std::size_t>(number)];
  Task& own = tasks_[static_cast<std::size_t>(task)];
  stage.is_taken = true;
  stage.current = {.work = own.is_finished ? StageWork::kOther : work_of(own.direction),
                   .micro_batch = task,
                   .begin = std::chrono::steady_clock::now(),
                   .end = {}};
  own.wait = Wait::kNone;
  own.holds = true;
  if (own.direction == PassDirection::kForward && !own.is_finished) keep_activations(task, number);
  granted_[static_cast<std::size_t>(task)].notify_all();
}

void StageSlots::leave(int task) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  own.wait = Wait::kNone;
  if (!own.holds) return;
  own.holds = false;
  if (own.direction == PassDirection::kBackward) forget_activations(task, own.stage);
  Stage& stage = stages_[static_cast<std::size_t>(own.stage)];
  stage.is_taken = false;
  stage.current.end = std::chrono::steady_clock::now();
  stage.spans.push_back(stage.current);
  grant(own.stage);
}

void StageSlots::keep_activations(int task, int number) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  if (own.is_live[static_cast<std::size_t>(number)]) return;
  own.is_live[static_cast<std::size_t>(number)] = true;
  Stage& stage = stages_[static_cast<std::size_t>(number)];
  stage.peak = std::max(stage.peak, ++stage.live);
}

void StageSlots::forget_activations(int task, int stage) {
  Task& own = tasks_[static_cast<std::size_t>(task)];
  if (!own.is_live[static_cast<std::size_t>(stage)]) return;
  own.is_live[static_cast<std::size_t>(stage)] = false;
  --stages_[static_cast<std::size_t>(stage)].live;
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
  for (int stage = 0; stage < options_.stages; ++stage) grant(stage);
}

std::string StageSlots::description(int task) const {
  const Task& own = tasks_[static_cast<std::size_t>(task)];
  const Stage& stage = stages_[static_cast<std::size_t>(own.stage)];
  std::string text =
      base::str_cat("After ", options_.timeout.count(), " ms ", text_of(own.direction, task),
                    " still waits for stage ", own.stage, " of the pipeline, ");
  for (std::size_t other = 0; other < tasks_.size(); ++other) {
    const Task& holder = tasks_[other];
    if (holder.holds && holder.stage == own.stage)
      return text + base::str_cat("which computes ",
                                  text_of(holder.direction, static_cast<int>(other)), ".");
  }
  const auto& order = orders_[static_cast<std::size_t>(own.stage)];
  if (stage.next == order.size()) return text + "which is free.";
  const StagePass& next = order[stage.next];
  return text + base::str_cat("which waits for ", text_of(next.direction, next.micro_batch), ".");
}

}  // namespace brigade::concurrency
