#pragma once

#include <optional>
#include <string>

namespace brigade::base {

/// The value of an environment variable, or nothing if it is not set. Set and empty is an empty
/// string. Thread-safety: safe as long as no thread changes the environment (setenv) at the same
/// time.
std::optional<std::string> environment(const std::string& name);

/// The host name of this process, for messages; "localhost" if there is none.
std::string host_name();

}  // namespace brigade::base
