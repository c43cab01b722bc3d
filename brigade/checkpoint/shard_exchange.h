#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace brigade::checkpoint {

/// Status messages between processes that write a checkpoint together. Each process posts one text,
/// which replaces its previous one and which all can read. Rank 0 is the chief.
/// `train::make_shard_exchange` makes one from a membership.
///
/// Thread-safety: all functions from any thread.
class ShardExchange {
 public:
  using Predicate = std::function<bool(const std::string&)>;

  virtual ~ShardExchange() = default;
  virtual int rank() const = 0;
  virtual int count() const = 0;
  /// The name of a process in messages: "/job:worker/task:1".
  virtual std::string name(int rank) const = 0;

  /// Throws kUnavailable if the text cannot be posted.
  virtual void post(std::string_view text) = 0;
  /// Waits until `is_expected` accepts the text of `rank`, and returns it. Texts posted in between
  /// may be missed. Throws kDeadlineExceeded, naming the process, if it takes too long;
  /// kUnavailable, naming it, if a process is lost while waiting.
  virtual std::string wait_for(int rank, const Predicate& is_expected) = 0;
};

}  // namespace brigade::checkpoint
