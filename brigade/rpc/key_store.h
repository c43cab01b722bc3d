#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/rpc/protocol.h"

namespace brigade::rpc {

/// Keys with values, and the calls that wait for keys that are not set yet.
///
/// Thread-safety: none; RendezvousState guards it.
class KeyStore {
 public:
  /// Stores the value. Returns the calls that waited for it, which must be answered.
  std::vector<PendingCall> set(std::string_view key, std::string_view value);
  std::optional<std::string> find(std::string_view key) const;
  /// Adds to the number that the key holds as decimal text (0 if unset). Throws kFailedPrecondition
  /// if the value is not a number.
  struct Added {
    std::int64_t sum;
    std::vector<PendingCall> released;
  };
  Added add(std::string_view key, std::int64_t delta);

  /// Stores the value under "<key>/<number>", with the next number of the list, from 1.
  struct Appended {
    std::int64_t number;
    std::vector<PendingCall> released;
  };
  Appended append(std::string_view key, std::string_view value);

  void wait_for(std::string_view key, PendingCall waiting);
  /// Removes and returns the calls for which `is_over` is true.
  std::vector<PendingCall> take_if(const std::function<bool(const PendingCall&)>& is_over);
  /// The earliest deadline of the waiting calls.
  std::optional<TimePoint> next_deadline() const;
  void clear() { values_.clear(), lengths_.clear(), waiting_.clear(); }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::int64_t, std::less<>> lengths_;  // of lists
  std::multimap<std::string, PendingCall, std::less<>> waiting_;
};

}  // namespace brigade::rpc
