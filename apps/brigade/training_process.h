#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/brigade/interrupt.h"
#include "apps/brigade/report.h"

namespace brigade::command {

/// How a `brigade train` in a separate process has ended.
struct TrainingProcessResult {
  int code = 0;
  /// The object that it wrote with --json; null without one.
  Json report;
  /// Its error, or the last line that it wrote to standard error.
  std::string message;
};

/// Runs `brigade train --json` with these arguments as a process, and waits until it has ended. A
/// signal is passed on to it, so that it saves its state and ends. It is killed when this program
/// ends in any way. Throws kUnavailable if it cannot be started. Thread-safety: any thread.
TrainingProcessResult run_training_process(const std::vector<std::string>& arguments,
                                           const Interrupt& interrupt);

}  // namespace brigade::command
