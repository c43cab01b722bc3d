#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "brigade/base/environment.h"

namespace brigade::cluster {

/// Looks up an environment variable; nothing if it is not set. All resolvers take one, so that
/// tests can pass a map instead of changing the process's environment.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The environment of this process.
inline Environment process_environment() {
  return [](const std::string& name) { return base::environment(name); };
}

/// An environment with exactly these variables.
inline Environment make_environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

/// The environment variables that `brigade launch` sets for its processes and the resolver reads.
/// All but the first two are torchrun's, so that other programs understand them too.
inline constexpr const char* kRendezvousVariable = "BRIGADE_RENDEZVOUS";  ///< "host:port"
inline constexpr const char* kGenerationVariable =
    "BRIGADE_GENERATION";  ///< 0, and one more a restart
inline constexpr const char* kRankVariable = "RANK";
inline constexpr const char* kWorldSizeVariable = "WORLD_SIZE";
inline constexpr const char* kLocalRankVariable = "LOCAL_RANK";
inline constexpr const char* kLocalWorldSizeVariable = "LOCAL_WORLD_SIZE";
/// The address of rank 0, for programs that use PyTorch's rendezvous.
inline constexpr const char* kMasterAddressVariable = "MASTER_ADDR";
inline constexpr const char* kMasterPortVariable = "MASTER_PORT";
/// Where a parameter server keeps its variables, for its next process; set by `brigade launch`.
inline constexpr const char* kServerFolderVariable = "BRIGADE_SERVER_FOLDER";

}  // namespace brigade::cluster
