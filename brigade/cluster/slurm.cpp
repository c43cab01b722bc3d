#include "brigade/cluster/slurm.h"

#include <numeric>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/hostlist.h"
#include "brigade/cluster/launch_environment.h"
#include "brigade/cluster/variable_reader.h"

namespace brigade::cluster {
namespace {

constexpr const char* kRank = "SLURM_PROCID";
constexpr const char* kLocalRank = "SLURM_LOCALID";
constexpr const char* kHosts = "SLURM_STEP_NODELIST";
constexpr const char* kTasksPerHost = "SLURM_STEP_TASKS_PER_NODE";
constexpr const char* kHostIndex = "SLURM_NODEID";

// Older versions of Slurm know SLURM_NTASKS alone.
const char* size_variable(const VariableReader& variables) {
  constexpr const char* kSize = "SLURM_STEP_NUM_TASKS";
  constexpr const char* kOldSize = "SLURM_NTASKS";
  return !variables.has(kSize) && variables.has(kOldSize) ? kOldSize : kSize;
}

template <class Parse>
auto expanded(const VariableReader& variables, const char* name, const Parse& parse) {
  try {
    return parse(variables.required_text(name));
  } catch (const Error& error) {
    variables.refuse(base::str_cat(name, " is wrong. ", error.what()));
  }
}

int port_of_step(const VariableReader& variables) {
  const std::string job =
      variables.text("SLURM_JOB_ID").value_or(variables.text("SLURM_JOBID").value_or(""));
  const std::string step =
      variables.text("SLURM_STEP_ID").value_or(variables.text("SLURM_STEPID").value_or(""));
  return port_of_job(base::str_cat(job, ".", step));
}

// How many tasks this host has, if Slurm says both what is needed.
std::optional<int> tasks_here(const VariableReader& variables, const ClusterConfig& config,
                              std::size_t hosts) {
  if (!variables.has(kTasksPerHost)) return std::nullopt;
  const std::vector<int> tasks = expanded(variables, kTasksPerHost, expand_tasks_per_node);
  const int sum = std::accumulate(tasks.begin(), tasks.end(), 0);
  if (tasks.size() != hosts || sum != config.world_size) {
    variables.refuse(base::str_cat(kTasksPerHost, " counts ", sum, " tasks on ", tasks.size(),
                                   " hosts, but there are ", config.world_size, " tasks on ", hosts,
                                   " hosts."));
  }
  const auto host = variables.number(kHostIndex, 0);
  if (!host) return std::nullopt;
  if (static_cast<std::size_t>(*host) >= tasks.size()) {
    variables.refuse(
        base::str_cat(kHostIndex, " is ", *host, ", but there are ", tasks.size(), " hosts."));
  }
  return tasks[static_cast<std::size_t>(*host)];
}

std::string rendezvous_address(const VariableReader& variables, const std::string& first_host) {
  const int port = port_of_step(variables);
  if (variables.has(kMasterAddressVariable)) return to_string(variables.required_master(port));
  return to_string(Address{first_host, variables.number(kMasterPortVariable, 1).value_or(port)});
}

}  // namespace

std::optional<ClusterConfig> resolve_slurm(const Environment& environment) {
  const VariableReader variables(environment, "Slurm's environment");
  if (!variables.has(kHosts)) return std::nullopt;
  ClusterConfig config;
  variables.read_rank(config, kRank, size_variable(variables));
  const std::vector<std::string> hosts = expanded(variables, kHosts, expand_hostlist);
  config.local_rank = variables.number(kLocalRank, 0);
  config.local_world_size = tasks_here(variables, config, hosts.size());
  config.generation = variables.number("SLURM_RESTART_COUNT", 0).value_or(0);
  if (config.world_size > 1) config.rendezvous = rendezvous_address(variables, hosts.front());
  return config;
}

}  // namespace brigade::cluster
