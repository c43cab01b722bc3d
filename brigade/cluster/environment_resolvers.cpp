#include "brigade/cluster/environment_resolvers.h"

#include <map>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/rank_assignment.h"
#include "brigade/cluster/variable_reader.h"

namespace brigade::cluster {
namespace {

// The ranks and sizes, in the variables that torchrun and brigade launch set.
ClusterConfig ranks_of(const VariableReader& variables) {
  ClusterConfig config;
  variables.read_rank(config, kRankVariable, kWorldSizeVariable);
  variables.read_local_rank(config, kLocalRankVariable, kLocalWorldSizeVariable);
  return config;
}

// If the agent of torchrun listens on the master's port itself, rank 0 cannot.
int free_port(const VariableReader& variables, int master_port) {
  if (variables.text("TORCHELASTIC_USE_AGENT_STORE").value_or("") != "True") return master_port;
  constexpr int kLastPort = 65535;
  return master_port < kLastPort ? master_port + 1 : master_port - 1;
}

// A name that identifies this job among the jobs of the host.
std::string job_name(const VariableReader& variables) {
  for (const char* name :
       {"PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid", "OMPI_MCA_ess_base_jobid"}) {
    if (const auto text = variables.text(name)) return *text;
  }
  return "open mpi";
}

std::string rendezvous_address(const VariableReader& variables, const ClusterConfig& config) {
  if (variables.has(kMasterAddressVariable)) {
    return to_string(variables.required_master(port_of_job(job_name(variables))));
  }
  if (config.local_world_size != config.world_size) {
    variables.refuse(
        "nothing names the host of rank 0; add it: mpirun -x MASTER_ADDR=<host of rank 0>.");
  }
  const auto port = variables.number(kMasterPortVariable, 1);
  return to_string(Address{"127.0.0.1", port.value_or(port_of_job(job_name(variables)))});
}

constexpr const char* kIndex = "JOB_COMPLETION_INDEX";
constexpr int kPodPort = 29400;

// Kubernetes calls the pods of an indexed job <job>-<index>.
std::string kubernetes_job_name(const VariableReader& variables, int index) {
  if (variables.has(kKubernetesJobVariable)) {
    return variables.required_text(kKubernetesJobVariable);
  }
  const std::string host = variables.text("HOSTNAME").value_or("");
  const std::string end = base::str_cat("-", index);
  if (host.size() <= end.size() || !host.ends_with(end)) {
    variables.refuse("HOSTNAME is ", base::quoted(host), ", which does not end in ",
                     base::quoted(end), "; set ", kKubernetesJobVariable, " to the job's name.");
  }
  return host.substr(0, host.size() - end.size());
}

ClusterSpec pods(const std::string& job, const std::string& service, int count, int port) {
  ClusterSpec::Tasks workers;
  for (int index = 0; index < count; ++index) {
    workers.emplace(index, base::str_cat(job, "-", index, ".", service, ":", port));
  }
  return ClusterSpec(std::map<std::string, ClusterSpec::Tasks>{{"worker", std::move(workers)}});
}

}  // namespace

std::optional<ClusterConfig> resolve_launched(const Environment& environment) {
  const VariableReader variables(environment, "the environment of brigade launch");
  if (!variables.has(kRendezvousVariable)) return std::nullopt;
  ClusterConfig config = ranks_of(variables);
  config.generation = variables.number(kGenerationVariable, 0).value_or(0);
  config.rendezvous_host = ClusterConfig::RendezvousHost::kLauncher;
  config.rendezvous = variables.required_address(kRendezvousVariable);
  if (config.world_size == 1) config.rendezvous.clear();
  return config;
}

std::optional<ClusterConfig> resolve_tf_config(const Environment& environment) {
  constexpr const char* kSource = "TF_CONFIG";
  const auto text = environment(kSource);
  if (!text) return std::nullopt;
  check_argument(!base::trim(*text).empty(),
                 "TF_CONFIG: it is set, but empty; unset it, or describe a cluster in it as JSON.");
  DescribedCluster described = parse_cluster_json(*text, kSource);
  if (described.cluster.is_empty()) return std::nullopt;
  return assign_rank(std::move(described), kSource);
}

std::optional<ClusterConfig> resolve_torchrun(const Environment& environment) {
  const VariableReader variables(environment, "the torchrun environment");
  if (!variables.has(kRankVariable)) return std::nullopt;
  ClusterConfig config = ranks_of(variables);
  config.generation = variables.number("TORCHELASTIC_RESTART_COUNT", 0).value_or(0);
  if (config.world_size == 1) return config;
  Address master = variables.required_master();
  master.port = free_port(variables, master.port);
  config.rendezvous = to_string(master);
  return config;
}

std::optional<ClusterConfig> resolve_open_mpi(const Environment& environment) {
  const VariableReader variables(environment, "Open MPI's environment");
  if (!variables.has("OMPI_COMM_WORLD_RANK")) return std::nullopt;
  ClusterConfig config;
  variables.read_rank(config, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  variables.read_local_rank(config, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  if (config.world_size > 1) config.rendezvous = rendezvous_address(variables, config);
  return config;
}

std::optional<ClusterConfig> resolve_kubernetes(const Environment& environment) {
  const VariableReader variables(environment, "the environment of the Kubernetes job");
  if (!variables.has(kKubernetesCompletionsVariable)) return std::nullopt;
  if (!variables.has(kIndex)) {
    variables.refuse(kKubernetesCompletionsVariable, " is set, but ", kIndex,
                     " is not; give the job `completionMode: Indexed`.");
  }
  ClusterConfig counted;
  variables.read_rank(counted, kIndex, kKubernetesCompletionsVariable);
  const int port = variables.number(kKubernetesPortVariable, 1).value_or(kPodPort);
  const std::string service = variables.required_text(kKubernetesServiceVariable);
  const std::string job = kubernetes_job_name(variables, counted.rank);
  return assign_rank({pods(job, service, counted.world_size, port), counted.task},
                     variables.source());
}

}  // namespace brigade::cluster
