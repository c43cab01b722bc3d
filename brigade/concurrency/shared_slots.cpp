#include "brigade/concurrency/shared_slots.h"

#include <algorithm>
#include <map>

#include "brigade/base/error.h"

namespace brigade::concurrency {

SharedSlots::SharedSlots(const std::vector<int>& slot_of_task)
    : slot_of_task_(slot_of_task.size(), nullptr), index_in_slot_(slot_of_task.size(), 0) {
  std::map<int, std::vector<std::size_t>> tasks_of_slot;
  for (std::size_t task = 0; task < slot_of_task.size(); ++task) {
    check_argument(slot_of_task[task] >= 0, "The execution slot of task ", task, " is ",
                   slot_of_task[task], "; slots are 0 or more.");
    tasks_of_slot[slot_of_task[task]].push_back(task);
  }
  for (const auto& [number, tasks] : tasks_of_slot) {
    if (tasks.size() == 1) continue;
    slots_.push_back(std::make_unique<Slot>(tasks.size()));
    for (std::size_t index = 0; index < tasks.size(); ++index) {
      slot_of_task_[tasks[index]] = slots_.back().get();
      index_in_slot_[tasks[index]] = index;
    }
  }
}

void SharedSlots::start() {
  for (const auto& slot : slots_) {
    const MutexLock lock(slot->mutex);
    std::fill(slot->states.begin(), slot->states.end(), TaskState::kWaits);
    slot->grant_next();
  }
}

void SharedSlots::acquire(int task) {
  Slot* const slot = slot_of_task_[static_cast<std::size_t>(task)];
  if (slot == nullptr) return;
  const std::size_t index = index_in_slot_[static_cast<std::size_t>(task)];
  const MutexLock lock(slot->mutex);
  TaskState& state = slot->states[index];
  if (state == TaskState::kComputesOrAway) {  // otherwise `start` has put it in the queue
    if (!slot->is_taken) {
      slot->is_taken = true;
      return;
    }
    state = TaskState::kWaits;
  }
  while (state != TaskState::kGranted) slot->granted[index].wait(slot->mutex);
  state = TaskState::kComputesOrAway;
}

void SharedSlots::release(int task) {
  Slot* const slot = slot_of_task_[static_cast<std::size_t>(task)];
  if (slot == nullptr) return;
  const MutexLock lock(slot->mutex);
  slot->grant_next();
}

void SharedSlots::Slot::grant_next() {
  const auto next = std::find(states.begin(), states.end(), TaskState::kWaits);
  is_taken = next != states.end();
  if (!is_taken) return;
  *next = TaskState::kGranted;
  granted[static_cast<std::size_t>(next - states.begin())].notify_one();
}

}  // namespace brigade::concurrency
