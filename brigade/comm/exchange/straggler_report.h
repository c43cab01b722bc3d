#pragma once

#include <chrono>
#include <string_view>

namespace brigade::comm {

/// Measures how long one collective waits: logs once which members are late, and knows when the
/// timeout has passed.
///
/// Thread-safety: one thread.
class StragglerReport {
 public:
  StragglerReport(std::chrono::milliseconds slow_after, std::chrono::milliseconds timeout);

  bool is_over() const;
  /// Whether it is time to call `report`, once.
  bool is_due() const;
  /// Writes "<what> has waited 5000 ms for <late>" to the log.
  void report(std::string_view what, std::string_view late);

 private:
  const std::chrono::steady_clock::time_point start_;
  const std::chrono::milliseconds slow_after_;
  const std::chrono::milliseconds timeout_;
  bool was_reported_ = false;
};

}  // namespace brigade::comm
