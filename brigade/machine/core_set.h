#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::machine {

/// A set of processor cores, by the operating system's numbers. A core here is what the system
/// schedules on: with simultaneous multithreading, a hardware thread.
///
/// Thread-safety: a value.
class CoreSet {
 public:
  CoreSet() = default;
  /// In any order; a number given twice counts once. Throws kInvalidArgument for a negative number.
  explicit CoreSet(std::vector<int> cores);

  /// Parses the list form of /sys and `taskset -c`: `0-3,8`. Surrounding white space is ignored,
  /// and the empty text is the empty set. Throws kInvalidArgument for anything else, and for
  /// numbers above 65535.
  static CoreSet parse(std::string_view text);
  /// The list form: `0-3,8`; empty for the empty set.
  std::string to_string() const;

  bool empty() const { return cores_.empty(); }
  std::size_t size() const { return cores_.size(); }
  bool contains(int core) const;
  /// The numbers, ascending.
  const std::vector<int>& cores() const { return cores_; }
  /// The cores in both sets.
  CoreSet intersection(const CoreSet& other) const;

  friend bool operator==(const CoreSet&, const CoreSet&) = default;

 private:
  std::vector<int> cores_;  // ascending, each once
};

}  // namespace brigade::machine
