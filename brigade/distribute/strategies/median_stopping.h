#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "brigade/distribute/strategies/trial_result.h"

namespace brigade::distribute {

/// Stops a trial early if, at the epoch that it reports, its best value so far is worse than the
/// median of the other trials' means up to the same epoch. Needs no model of how trainings go, and
/// keeps every trial that has been as good as half of the others once.
///
/// Only trials that have reported that epoch count, ended ones included, so the comparison is
/// always between equal epochs. On one device trials run one after another, and a sweep stops the
/// same trials in every run. On several, which of the others have reached that epoch depends on
/// timing, and so does which trials stop; the weights of a trial do not.
///
/// Source: Golovin et al., "Google Vizier: A Service for Black-Box Optimization", 2017, section
/// 3.2.2; there steps are compared and only completed trials. Optuna: MedianPruner.
/// Thread-safety: a value.
struct MedianStopping {
  /// The metric to compare.
  std::string metric = "loss";
  /// Whether larger values are better.
  bool maximize = false;
  /// Epochs up to this one never stop a trial.
  std::int64_t grace_epochs = 1;
  /// Of so many others there must be reports of the epoch.
  int min_trials = 2;

  /// Throws kInvalidArgument for an empty metric, negative grace, or fewer than 1 trial.
  void check() const;

  /// Why the trial with the reports `own`, the last of which is the newest, should stop; unset: it
  /// should not. A value that is not finite is the worst of all. Throws kInvalidArgument if the
  /// newest report has no such metric, naming those it has.
  std::optional<std::string> reason_to_stop(
      const std::vector<TrialReport>& own,
      const std::vector<std::vector<TrialReport>>& others) const;
};

}  // namespace brigade::distribute
