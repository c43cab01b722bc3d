#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "brigade/distribute/strategies/trial_result.h"

namespace brigade::command {

/// Shows how the trials of a sweep get on: on a terminal as a table that is rewritten, otherwise as
/// a line for each change.
///
/// Thread-safety: one thread at a time.
class SweepDisplay {
 public:
  enum class Form { kLines, kRewrite };

  /// A label says what a trial is. `out` must outlive this object.
  SweepDisplay(std::ostream& out, std::vector<std::string> labels, Form form);
  /// A trial has begun, reported or ended.
  void show(const distribute::TrialResult& trial);

 private:
  void write_line(const distribute::TrialResult& trial);
  void rewrite();

  std::ostream& out_;
  const std::vector<std::string> labels_;
  const Form form_;
  std::vector<distribute::TrialResult> trials_;
  std::ptrdiff_t lines_ = 0;  // of the table on the terminal
};

}  // namespace brigade::command
