#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "brigade/train/hooks/every.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace brigade::command {

/// Whether a flag accepts `never`.
enum class Never { kRefused, kAllowed };

/// Adds a flag such as `--save-every`. Given twice, it counts as `FIRST,SECOND`.
CLI::Option* add_interval(CLI::App& app, const std::string& flag, std::optional<std::string>& text,
                          const std::string& description);

/// Parses such a flag: steps ("500steps"), time ("100s", "1.5m", "2h"), both ("100s,500steps":
/// whichever comes first), or `never`. Throws UsageError that names the flag, its value, and the
/// allowed values.
train::Every parse_interval(std::string_view flag, std::string_view text, Never never);

}  // namespace brigade::command
