#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace brigade::cluster {

/// Looks an environment variable up: nothing if it is not set. All resolvers read through one, so
/// that a test hands them a map and no test changes the environment of its process.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// What the process itself was given.
Environment process_environment();

/// One with these variables and no others.
Environment make_environment(std::map<std::string, std::string> variables);

}  // namespace brigade::cluster
