#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace brigade::cluster {

/// Looks up an environment variable; nothing if it is not set. All resolvers take one, so that
/// tests can pass a map instead of changing the process's environment.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The environment of this process.
Environment process_environment();

/// An environment with exactly these variables.
Environment make_environment(std::map<std::string, std::string> variables);

}  // namespace brigade::cluster
