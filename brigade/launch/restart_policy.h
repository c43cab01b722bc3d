#pragma once

#include <functional>
#include <vector>

#include "brigade/launch/job_options.h"
#include "brigade/launch/rank_failure.h"

namespace brigade::launch {

/// Decides about restarts of independent processes: each one that fails is restarted alone, within
/// the job's limits.
///
/// Thread-safety: one thread.
class RestartPolicy {
 public:
  /// The options must outlive it.
  explicit RestartPolicy(const JobOptions& options) : options_(options) {}

  /// Whether a process with this exit status, which is not success, is restarted. A failure is
  /// logged with the text of `describe`.
  bool allows(const ExitStatus& status, const std::function<RankFailure()>& describe);

  int restarts() const { return restarts_; }
  int membership_changes() const { return membership_changes_; }
  /// The exit code of the first process that was not restarted; 0 if there is none.
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
