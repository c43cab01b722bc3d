#pragma once

#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "brigade/distribute/per_replica.h"

namespace brigade::distribute {

class Strategy;

/// Collects what the replicas of one run throw and keeps the first. The workers' word on the whole
/// step (comm::StepAbandoned, comm::StepMismatch) comes before what a replica throws that was
/// released because of it.
///
/// Thread-safety: `record` from any thread; the rest after all have returned.
class ReplicaFailure {
 public:
  /// Keeps `error` if it is the first. Returns its text, for the replicas that are released because
  /// of it.
  std::string record(int replica, std::exception_ptr error);

  /// Throws the first failure, if there was one, with the replica named (a strategy of one replica
  /// throws it as it is, and so does any where it is the workers' word). What is not an `Error`
  /// says nothing of the batch: where `examples` are known, the replica's follow, and how an uneven
  /// batch is avoided if it had fewer than others.
  void rethrow(const Strategy& strategy,
               const std::optional<ExampleCounts>& examples = std::nullopt) const;

  bool happened() const { return error_ != nullptr; }
  /// Of the first failure; empty: there was none.
  std::string text() const;

 private:
  std::mutex mutex_;  // guards the members below
  std::exception_ptr error_;
  int replica_ = 0;
};

}  // namespace brigade::distribute
