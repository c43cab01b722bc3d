#pragma once

#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "brigade/distribute/per_replica.h"

namespace brigade::distribute {

class Strategy;

/// Collects the exceptions of the replicas of one run and keeps the first. An exception that fails
/// the step in all workers (comm::StepAbandoned, comm::StepMismatch, GradientMismatch) takes
/// precedence over those of replicas that were released because of it.
///
/// Thread-safety: `record` from any thread; the rest after all have returned.
class ReplicaFailure {
 public:
  /// Keeps `error` if it is the first. Returns its text, which the released replicas report.
  std::string record(int replica, std::exception_ptr error);

  /// Throws the first failure, if there was one, with the name of the replica. The name is left out
  /// if the strategy has one replica or if the failure concerns all workers. If the failure is not
  /// an `Error` and `examples` are known, the message ends with the replica's number of examples
  /// and, if other replicas had more, with how to avoid uneven batches.
  void rethrow(const Strategy& strategy,
               const std::optional<ExampleCounts>& examples = std::nullopt) const;

  bool happened() const { return error_ != nullptr; }
  /// The text of the first failure; empty if there was none.
  std::string text() const;

 private:
  std::mutex mutex_;  // guards the members below
  std::exception_ptr error_;
  int replica_ = 0;
};

}  // namespace brigade::distribute
