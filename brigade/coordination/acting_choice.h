#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "brigade/coordination/server_pair.h"

namespace brigade::coordination {

/// Decides which process of a replicated parameter server a client uses, and for which it votes, by
/// what the processes say. Votes count if the client is the job's witness.
///
/// A client gives each epoch to one process, and no process acts in two of them by one vote. It
/// votes for a candidate only if that has everything that was acknowledged in the last epoch of
/// which the client, or a process that answers, knows: then no other one can have acted since.
///
/// A client that was started, too, knows of no epoch. So it does not vote for a process that has
/// what it has from its folder before the other one has answered, which may have continued alone.
///
/// Thread-safety: one thread.
class ActingChoice {
 public:
  enum class Kind {
    kNone,  ///< neither can be used now
    kUse,   ///< `server` acts
    kVote   ///< `server` is asked to act in `epoch`; the promise is kept, whatever it answers
  };
  struct Choice {
    Kind kind = Kind::kNone;
    std::size_t server = 0;
    std::int64_t epoch = 0;
    friend bool operator==(const Choice&, const Choice&) = default;
  };

  /// `answers`: by process; unset for one that did not answer. Which processes there are never
  /// changes.
  Choice choose(std::span<const std::optional<PairStatus>> answers);

  /// The process of the last kVote has said that it is still a candidate: the vote does not count,
  /// and was not promised.
  void withdraw() { promise_ = before_; }

 private:
  struct Promise {
    std::int64_t epoch = 0;
    std::optional<std::size_t> server = std::nullopt;  // unset: that process has acted, or none
  };
  Choice vote_for(std::size_t server, std::int64_t epoch);

  std::int64_t known_ = 0;  // the last epoch in which a process acted
  Promise promise_;
  Promise before_;  // the last vote
};

}  // namespace brigade::coordination
