#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "brigade/coordination/lease_table.h"

namespace brigade::coordination {

struct FunctionQueueOptions {
  /// How many functions may wait for a worker.
  std::size_t capacity = 4096;
  /// A function whose worker was lost this many times while it had the function counts as failed:
  /// most likely it is what ends its workers.
  int max_losses = 8;
};

/// How a function ended on its worker.
enum class FunctionOutcome { kSucceeded, kFailed };

/// Decides which worker runs which of a coordinator's functions, what is run again when a worker is
/// lost, and what becomes of the others when one fails.
///
/// Functions are given out in the order in which they were added, one at a time to each worker. If
/// its worker is lost, a function is given to another one, before those that were added later: so
/// it may run more than once. The first that fails cancels all others; until its error was taken,
/// none is added or given out.
///
/// A function that is cancelled while it runs keeps its worker busy until the worker reports it or
/// is lost; its outcome does not count.
///
/// Thread-safety: one thread.
class FunctionQueue {
 public:
  using Id = std::int64_t;

  /// Throws kInvalidArgument unless both numbers are positive.
  explicit FunctionQueue(FunctionQueueOptions options = {});

  /// Whether `add` has room.
  bool has_room() const { return queued_.size() < options_.capacity; }
  /// Adds a function and returns its id, from 1. Throws kResourceExhausted if the queue is full,
  /// kFailedPrecondition while there is an error that was not taken.
  Id add();

  /// What `worker` runs now: what it was given and has not reported, so that it may ask again if
  /// the answer was lost, or the next function. Unset if there is nothing to do. A worker that asks
  /// has ended a function that was cancelled.
  std::optional<Id> next(const Incarnation& worker);
  /// Whether `worker` has this function, and its outcome will count.
  bool is_wanted(const Incarnation& worker, Id function) const;

  /// The functions whose fate a message has decided. None of them is run or reported again.
  struct Settlement {
    std::optional<Id> succeeded = std::nullopt;
    std::optional<Id> failed = std::nullopt;  ///< its error is the one to be taken
    std::vector<Id> cancelled = {};           ///< because of `failed`, in the order of their ids
    friend bool operator==(const Settlement&, const Settlement&) = default;
  };
  /// `worker` has ended `function`. Nothing is settled if it does not have it: a repeated report,
  /// or one of a worker that was thought lost; nor if it was cancelled.
  Settlement finish(const Incarnation& worker, Id function, FunctionOutcome outcome);
  /// `worker` is gone: its function is run again. With its `max_losses`-th loss it has failed.
  Settlement lose(const Incarnation& worker);
  /// Cancels all functions, without an error.
  Settlement cancel();

  /// Whether a function has failed, and `take_error` was not called.
  bool has_error() const { return has_error_; }
  /// From now on functions are added again.
  void take_error() { has_error_ = false; }

  /// How many wait for a worker.
  std::size_t queued() const { return queued_.size(); }
  /// How many workers have, with those that were cancelled.
  std::size_t running() const { return running_.size(); }
  bool is_idle() const { return queued_.empty() && running_.empty(); }

 private:
  /// Orders incarnations, so that they can be keys.
  struct ByTask {
    bool operator()(const Incarnation& a, const Incarnation& b) const {
      return a.task != b.task ? a.task < b.task : a.number < b.number;
    }
  };
  struct Running {
    Id function = 0;
    bool is_cancelled = false;
  };

  Settlement fail(Id function);
  std::vector<Id> cancel_all();

  FunctionQueueOptions options_;
  Id last_ = 0;
  std::set<Id> queued_;
  std::map<Incarnation, Running, ByTask> running_;
  std::map<Id, int> losses_;  // of functions that lost a worker, while they are queued or run
  bool has_error_ = false;
};

}  // namespace brigade::coordination
