#pragma once

#include <functional>
#include <vector>

#include "brigade/launch/rank_failure.h"
#include "brigade/launch/job_options.h"

namespace brigade::launch {

/// Keeps count of processes that have nothing to do with each other: each that ends badly is
/// started again alone, while the job's budget lasts.
///
/// Thread-safety: one thread.
class RestartPolicy {
 public:
  /// The options must outlive it.
  explicit RestartPolicy(const JobOptions& options) : options_(options) {}

  /// Whether one that ended like this, not with 0, is started again. `describe` is called for a
  /// failure, which is told.
  bool allows(const ExitStatus& status, const std::function<RankFailure()>& describe);

  int restarts() const { return restarts_; }
  int membership_changes() const { return membership_changes_; }
  /// Of the first that was not started again; 0 without one.
  int code() const { return code_; }
  const std::vector<RankFailure>& failures() const { return failures_; }

 private:
  const JobOptions& options_;
  int restarts_ = 0;
  int membership_changes_ = 0;
  int code_ = 0;
  std::vector<RankFailure> failures_;
};

}  // namespace brigade::launch
