#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace brigade::rpc {

/// Detects storms of connections that are not members', for warnings in the log.
///
/// Thread-safety: none.
class ConnectionStormDetector {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// This many in a second are a storm: more than a browser, a port scanner or a member with
  /// another key makes.
  static constexpr std::int64_t kStorm = 200;
  /// A storm is over after this long with fewer.
  static constexpr std::chrono::seconds kCalm{5};

  /// `address` is the one that they connect to, for the text.
  explicit ConnectionStormDetector(std::string address) : address_(std::move(address)) {}

  /// Records a connection that was closed because it did not begin as a member's. `peer` is its
  /// address.
  void record(TimePoint now, const std::string& peer);
  /// The text to log by now, if a storm has begun or is over. Call it regularly.
  std::optional<std::string> report(TimePoint now);

 private:
  std::string address_;
  std::string last_peer_;
  TimePoint second_begun_;      // the count's
  std::int64_t in_second_ = 0;  // so far
  std::int64_t in_storm_ = 0;
  std::optional<TimePoint> storm_begun_;
  TimePoint storm_seen_;  // when there were last kStorm in a second
  bool is_reported_ = false;
};

}  // namespace brigade::rpc
