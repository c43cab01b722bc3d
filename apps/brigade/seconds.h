#pragma once

#include <chrono>
#include <string_view>

namespace brigade::command {

/// Whether 0 seconds are allowed.
enum class ZeroSeconds { kRefused, kAllowed };

/// A flag's seconds as milliseconds. Throws UsageError, naming the flag, unless the time is valid
/// and at most 1000000 seconds.
std::chrono::milliseconds to_milliseconds(std::string_view flag, double seconds,
                                          ZeroSeconds zero = ZeroSeconds::kRefused);

}  // namespace brigade::command
