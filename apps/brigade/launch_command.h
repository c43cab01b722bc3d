#pragma once

#include <string>
#include <vector>

namespace brigade::command {

inline constexpr const char* kLaunchCommand = "launch";
inline constexpr const char* kLaunchDescription =
    "Start a program in several processes that train together";

/// Runs `brigade launch` with these arguments. Returns the exit code. Throws UsageError.
int run_launch(std::vector<std::string> arguments);

}  // namespace brigade::command
