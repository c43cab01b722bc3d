#include "brigade/concurrency/deferred_work.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace brigade::concurrency {

namespace {

std::size_t index(int number) {
  return static_cast<std::size_t>(number);
}

}  // namespace

DeferredQueue::DeferredQueue(int tasks, int stages)
    : open_(index(tasks), std::vector<int>(index(stages) + 1, 0)), errors_(index(tasks)) {}

int& DeferredQueue::open(const DeferredWork& work) {
  return open_[index(work.task)][index(work.stage + 1)];
}

void DeferredQueue::push(DeferredWork work) {
  ++open(work);
  queue_.push_back(std::move(work));
}

DeferredWork DeferredQueue::pop() {
  DeferredWork work = std::move(queue_.front());
  queue_.pop_front();
  return work;
}

std::optional<DeferredWork> DeferredQueue::pop_of(int task) {
  const auto found = std::ranges::find(queue_, task, &DeferredWork::task);
  if (found == queue_.end()) return std::nullopt;
  std::optional<DeferredWork> work = std::move(*found);
  queue_.erase(found);
  return work;
}

void DeferredQueue::done(const DeferredWork& work, std::exception_ptr error) {
  --open(work);
  std::exception_ptr& first = errors_[index(work.task)];
  if (error && !first) first = std::move(error);
}

std::vector<DeferredWork> DeferredQueue::remove(int task) {
  std::vector<DeferredWork> removed;
  while (std::optional<DeferredWork> work = pop_of(task)) {
    --open(*work);
    removed.push_back(std::move(*work));
  }
  return removed;
}

bool DeferredQueue::is_done(int task) const {
  return std::ranges::all_of(open_[index(task)], [](int pieces) { return pieces == 0; });
}

bool DeferredQueue::keeps(int task, int stage) const {
  return open_[index(task)][index(stage + 1)] > 0;
}

int DeferredQueue::kept(int stage) const {
  return static_cast<int>(std::ranges::count_if(
      open_, [&](const auto& of_task) { return of_task[index(stage + 1)] > 0; }));
}

std::exception_ptr DeferredQueue::take_error(int task) {
  return std::exchange(errors_[index(task)], nullptr);
}

}  // namespace brigade::concurrency
