#pragma once

#include <chrono>
#include <string_view>

namespace brigade::command {

/// Whether a time of nothing makes sense.
enum class ZeroSeconds { kRefused, kAllowed };

/// What a flag gives in seconds. Throws UsageError, naming the flag, for what is no time of up to
/// 1000000 seconds.
std::chrono::milliseconds to_milliseconds(std::string_view flag, double seconds,
                                          ZeroSeconds zero = ZeroSeconds::kRefused);

}  // namespace brigade::command
