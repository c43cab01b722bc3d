#include "brigade/cluster/open_mpi.h"

#include "brigade/cluster/launch_environment.h"
#include "brigade/cluster/variable_reader.h"

namespace brigade::cluster {
namespace {

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

}  // namespace

std::optional<ClusterConfig> resolve_open_mpi(const Environment& environment) {
  const VariableReader variables(environment, "Open MPI's environment");
  if (!variables.has("OMPI_COMM_WORLD_RANK")) return std::nullopt;
  ClusterConfig config;
  variables.read_rank(config, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  variables.read_local_rank(config, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE");
  if (config.world_size > 1) config.rendezvous = rendezvous_address(variables, config);
  return config;
}

}  // namespace brigade::cluster
