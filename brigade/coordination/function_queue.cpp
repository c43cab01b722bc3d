#include "brigade/coordination/function_queue.h"

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"

namespace brigade::coordination {

FunctionQueue::FunctionQueue(FunctionQueueOptions options) : options_(options) {
  check_argument(options.capacity >= 1 && options.max_losses >= 1,
                 "A queue of functions has a capacity of ", options.capacity, " and max_losses of ",
                 options.max_losses, ": both must be at least 1.");
}

FunctionQueue::Id FunctionQueue::add() {
  check_state(!has_error_,
              "A function has failed, and its error was not taken: none is added before that.");
  if (!has_room())
    throw Error(ErrorCode::kResourceExhausted, queued_.size(),
                " functions wait for a worker, as many as may.");
  queued_.insert(++last_);
  return last_;
}

std::optional<FunctionQueue::Id> FunctionQueue::next(const Incarnation& worker) {
  const auto found = running_.find(worker);
  if (found != running_.end()) {
    if (!found->second.is_cancelled) return found->second.function;
    running_.erase(found);
  }
  if (queued_.empty()) return std::nullopt;
  const Id first = *queued_.begin();
  queued_.erase(queued_.begin());
  running_[worker] = {.function = first};
  return first;
}

bool FunctionQueue::is_wanted(const Incarnation& worker, Id function) const {
  const auto found = running_.find(worker);
  return found != running_.end() && found->second.function == function &&
         !found->second.is_cancelled;
}

FunctionQueue::Settlement FunctionQueue::finish(const Incarnation& worker, Id function,
                                                FunctionOutcome outcome) {
  const auto found = running_.find(worker);
  if (found == running_.end() || found->second.function != function) return {};
  const bool is_cancelled = found->second.is_cancelled;
  running_.erase(found);
  if (is_cancelled) return {};
  if (outcome == FunctionOutcome::kFailed) return fail(function);
  losses_.erase(function);
  return {.succeeded = function};
}

FunctionQueue::Settlement FunctionQueue::lose(const Incarnation& worker) {
  const auto found = running_.find(worker);
  if (found == running_.end()) return {};
  const Running lost = found->second;
  running_.erase(found);
  if (lost.is_cancelled) return {};
  if (++losses_[lost.function] >= options_.max_losses) return fail(lost.function);
  queued_.insert(lost.function);
  return {};
}

FunctionQueue::Settlement FunctionQueue::cancel() {
  return {.cancelled = cancel_all()};
}

FunctionQueue::Settlement FunctionQueue::fail(Id function) {
  has_error_ = true;
  return {.failed = function, .cancelled = cancel_all()};
}

std::vector<FunctionQueue::Id> FunctionQueue::cancel_all() {
  std::vector<Id> cancelled(queued_.begin(), queued_.end());
  for (auto& [worker, each] : running_) {
    if (!std::exchange(each.is_cancelled, true)) cancelled.push_back(each.function);
  }
  queued_.clear();
  losses_.clear();
  std::ranges::sort(cancelled);
  return cancelled;
}

}  // namespace brigade::coordination
