#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace brigade::rpc {

/// Keys with values.
///
/// Thread-safety: none; its owner guards it.
class KeyStore {
 public:
  void set(std::string_view key, std::string_view value);
  std::optional<std::string> find(std::string_view key) const;
  /// Adds to the number that the key holds as decimal text (0 if unset) and returns the sum. Throws
  /// kFailedPrecondition if the value is not a number.
  std::int64_t add(std::string_view key, std::int64_t delta);
  /// Stores the value under "<key>/<number>", with the next number of the list, from 1, and returns
  /// the number.
  std::int64_t append(std::string_view key, std::string_view value);
  void clear() { values_.clear(), lengths_.clear(); }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::int64_t, std::less<>> lengths_;  // of lists
};

}  // namespace brigade::rpc
