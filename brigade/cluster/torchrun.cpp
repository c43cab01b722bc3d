#include "brigade/cluster/torchrun.h"

#include "brigade/cluster/launch_environment.h"
#include "brigade/cluster/variable_reader.h"

namespace brigade::cluster {
namespace {

// If the agent of torchrun listens on the master's port itself, rank 0 cannot.
int free_port(const VariableReader& variables, int master_port) {
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE").value_or("") != "True") return master_port;
  constexpr int kHighestPort = 65535;
  return master_port < kHighestPort ? master_port + 1 : master_port - 1;
}

}  // namespace

std::optional<ClusterConfig> resolve_torchrun(const Environment& environment) {
  const VariableReader variables(environment, "the torchrun environment");
  if (!variables.has(kRankVariable)) return std::nullopt;
  ClusterConfig config;
  variables.read_rank(config, kRankVariable, kWorldSizeVariable);
  variables.read_local_rank(config, kLocalRankVariable, kLocalWorldSizeVariable);
  config.generation = variables.number("TORCHELASTIC_RESTART_COUNT", 0).value_or(0);
  if (config.world_size == 1) return config;
  Address master = variables.required_master();
  master.port = free_port(variables, master.port);
  config.rendezvous = to_string(master);
  return config;
}

}  // namespace brigade::cluster
