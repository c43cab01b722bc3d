#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace brigade::coordination {

/// Decides when a worker may begin its next step under bounded staleness (stale synchronous
/// parallel, SSP): no worker runs more than `bound` steps ahead of the slowest. A bound of 0 lets
/// all workers begin a step only when all have finished the one before; no bound never waits,
/// which is asynchronous training.
///
/// Source: Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
/// Server", 2013.
///
/// Thread-safety: one thread.
class StalenessClock {
 public:
  /// Throws kInvalidArgument if `bound` is negative.
  explicit StalenessClock(std::optional<std::int64_t> bound);

  /// Adds a worker, at the number of steps that the slowest has finished: it neither holds up the
  /// others nor has to catch up. A worker that is there already starts from there, too, and one
  /// that is alone from where it was.
  void join(int worker);
  /// Removes a worker that ended or was lost: nobody waits for it any longer.
  void leave(int worker);
  /// Counts a step of `worker` as finished. Throws kFailedPrecondition for a worker that did not
  /// join, or that may not have begun the step.
  void finish_step(int worker);

  /// Whether `worker` may begin its next step now. Throws kFailedPrecondition for a worker that did
  /// not join.
  bool may_begin(int worker) const;
  /// The workers that others wait for: those with the fewest finished steps.
  std::vector<int> slowest() const;
  /// How many steps the slowest worker has finished; 0 without workers that joined.
  std::int64_t finished_by_all() const;

 private:
  std::int64_t finished_by(int worker) const;

  std::optional<std::int64_t> bound_;
  std::map<int, std::int64_t> finished_;  // steps by worker
};

}  // namespace brigade::coordination
