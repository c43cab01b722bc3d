#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/log.h"

/// For tests of log messages.
namespace brigade::data::testing {

/// The warnings that `call` logs.
inline std::vector<std::string> warnings_of(const std::function<void()>& call) {
  std::vector<std::string> warnings;
  base::set_log_sink([&](base::LogLevel level, std::string_view text) {
    if (level == base::LogLevel::kWarning) warnings.emplace_back(text);
  });
  call();
  base::set_log_sink({});
  return warnings;
}

}  // namespace brigade::data::testing
