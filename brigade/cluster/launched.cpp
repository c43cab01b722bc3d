#include "brigade/cluster/launched.h"

#include "brigade/cluster/launch_environment.h"
#include "brigade/cluster/variable_reader.h"

namespace brigade::cluster {

std::optional<ClusterConfig> resolve_launched(const Environment& environment) {
  const VariableReader variables(environment, "the environment of brigade launch");
  if (!variables.has(kRendezvousVariable)) return std::nullopt;
  ClusterConfig config;
  variables.read_rank(config, kRankVariable, kWorldSizeVariable);
  variables.read_local_rank(config, kLocalRankVariable, kLocalWorldSizeVariable);
  config.generation = variables.number(kGenerationVariable, 0).value_or(0);
  config.rendezvous_host = ClusterConfig::RendezvousHost::kLauncher;
  config.rendezvous = variables.required_address(kRendezvousVariable);
  if (config.world_size == 1) config.rendezvous.clear();
  return config;
}

}  // namespace brigade::cluster
