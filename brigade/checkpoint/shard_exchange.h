#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace brigade::checkpoint {

/// How processes that write a checkpoint together tell each other how far they are: a board for
/// each of them, on which it posts one text in place of the one before, and which all can read.
/// Rank 0 is the chief. `train::make_shard_exchange` makes one of a membership.
///
/// Thread-safety: all functions from any thread.
class ShardExchange {
 public:
  using Predicate = std::function<bool(const std::string&)>;

  virtual ~ShardExchange() = default;
  virtual int rank() const = 0;
  virtual int count() const = 0;
  /// What messages call a process: "/job:worker/task:1".
  virtual std::string name(int rank) const = 0;

  /// Throws kUnavailable if the board cannot be reached.
  virtual void post(std::string_view text) = 0;
  /// The text of `rank`, as soon as it has one that is wanted. Texts in between may be missed.
  /// Throws kDeadlineExceeded, naming the process, if it takes too long; kUnavailable, naming it,
  /// if a process is lost meanwhile.
  virtual std::string wait_for(int rank, const Predicate& is_expected) = 0;
};

}  // namespace brigade::checkpoint
