#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace brigade::rpc {

/// Tells when connections that are no member's come in such numbers that somebody should know.
///
/// Thread-safety: none.
class ConnectionStormDetector {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// So many in a second are a storm. More than strangers who are there by mistake make: a browser,
  /// a port scanner, a member with another key.
  static constexpr std::int64_t kStorm = 200;
  /// It is over after a time so long with fewer, and is told of again then at the earliest.
  static constexpr std::chrono::seconds kCalm{5};

  /// `address` is where they come to, for the text.
  explicit ConnectionStormDetector(std::string address) : address_(std::move(address)) {}

  /// A connection was closed because nothing showed that it was a member's. `peer` is its address.
  void record(TimePoint now, const std::string& peer);
  /// What the log should say by now: a storm that has begun, or is over. To be asked once in a
  /// while.
  std::optional<std::string> report(TimePoint now);

 private:
  std::string address_;
  std::string last_peer_;
  TimePoint second_begun_;      // the count's
  std::int64_t in_second_ = 0;  // so far
  std::int64_t in_storm_ = 0;
  std::optional<TimePoint> storm_begun_;
  TimePoint storm_seen_;  // when there last were enough in a second
  bool is_reported_ = false;
};

}  // namespace brigade::rpc
