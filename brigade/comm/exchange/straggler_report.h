#pragma once

#include <chrono>
#include <string_view>

namespace brigade::comm {

/// Watches how long one collective waits: says once in the log who is late, and says when the
/// time is over.
///
/// Thread-safety: one thread.
class StragglerReport {
 public:
  StragglerReport(std::chrono::milliseconds slow_after, std::chrono::milliseconds timeout);

  bool is_over() const;
  /// Whether it is time for `report`, which happens once.
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
