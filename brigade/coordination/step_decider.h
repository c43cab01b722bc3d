#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "brigade/io/state_tree.h"

namespace brigade::coordination {

/// How many gradients make a step in synchronous training with parameter servers. TensorFlow:
/// SyncReplicasOptimizer.
struct SyncOptions {
  /// Gradients that are averaged to one update.
  int replicas_to_aggregate = 1;
  /// Workers that compute gradients. More than `replicas_to_aggregate`: the difference are backup
  /// workers, and each step drops the gradients of those that came last. Fewer: a worker computes
  /// several gradients, each of a separate batch, for one step.
  int total_replicas = 1;
  friend bool operator==(const SyncOptions&, const SyncOptions&) = default;
};

/// One worker's gradient for a step: its `index`-th, from 0.
struct Contribution {
  int worker = 0;
  int index = 0;
  friend auto operator<=>(const Contribution&, const Contribution&) = default;
};

/// The gradients that make a step's update, ordered by worker and index. Every server adds them in
/// this order, so that sums do not depend on the order of arrival.
struct StepDecision {
  std::int64_t step = 0;
  std::vector<Contribution> contributions;
  /// Of the step's update on all servers: the coordinator's when it decided. Unset: not decided
  /// yet.
  std::optional<double> learning_rate = std::nullopt;
  friend bool operator==(const StepDecision&, const StepDecision&) = default;

  /// {"step", "contributions": [[worker, index], ...]}, and "learning_rate" if it is set.
  io::StateTree save() const;
  /// Throws kInvalidArgument for a state that `save` cannot have written.
  static StepDecision restore(const io::StateTree& state);
};

/// What becomes of a gradient that a worker has stored on all servers.
enum class ContributionVerdict {
  kAccepted,   ///< it counts for the step
  kDuplicate,  ///< it was counted already
  kStale       ///< the step was decided without it: the servers drop it
};

/// Decides which workers' gradients make each step of synchronous training. One decider serves a
/// job, whatever the number of servers: if each server decided alone, one step could mix different
/// sets of workers on different servers.
///
/// A worker asks for a token, computes the gradients of the token's step, stores them on all
/// servers and contributes them here. With the last contribution that is needed the step is
/// decided, and the next begins. Unlike TensorFlow's, tokens belong to a worker: a fast worker
/// cannot take the slow ones' part of a step, except as its backup.
///
/// Thread-safety: one thread.
class StepDecider {
 public:
  /// Throws kInvalidArgument unless both numbers are positive.
  explicit StepDecider(SyncOptions options, std::int64_t first_step = 0);

  /// The step for which `worker` may compute a gradient now, and the gradient's index; unset if it
  /// has computed all it may for the step in progress, and has to wait for the decision.
  struct Token {
    std::int64_t step = 0;
    int index = 0;
    friend bool operator==(const Token&, const Token&) = default;
  };
  std::optional<Token> token(int worker) const;

  /// `worker` has stored its gradient `token` on all servers. Throws kInvalidArgument for a step
  /// that has not begun, or an index that leaves a gap or exceeds what a worker may contribute.
  ContributionVerdict contribute(int worker, const Token& token);
  /// Decides the step in progress if it has all the gradients that it needs, and begins the next.
  /// Call it after each `contribute`. A gradient of a worker that was lost meanwhile counts: all
  /// servers have it.
  std::optional<StepDecision> decide();

  /// The step in progress.
  std::int64_t step() const { return step_; }
  /// How many gradients the step in progress still needs.
  int missing() const;
  /// How many gradients one worker may contribute to a step.
  int quota() const;

  /// {"step", "contributions": [[worker, index], ...]}.
  io::StateTree save() const;
  /// Throws kInvalidArgument for a state that `save` cannot have written, and changes nothing then.
  void restore(const io::StateTree& state);

 private:
  int count_of(int worker) const;

  SyncOptions options_;
  std::int64_t step_;
  std::set<Contribution> contributions_;  // of the step in progress
};

}  // namespace brigade::coordination
