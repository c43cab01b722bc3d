#include "brigade/launch/rank_environment.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"
#include "brigade/cluster/environment_variables.h"
#include "brigade/launch/descriptors.h"

namespace brigade::launch {

namespace {

using Variables = std::map<std::string, std::optional<std::string>>;

constexpr const char* kGpusVariable = "CUDA_VISIBLE_DEVICES";
constexpr const char* kMemoryVariable = "BRIGADE_GPU_MEMORY_FRACTION";  // see brigade/device
constexpr const char* kHostVariable = "GROUP_RANK";                     // as torchrun calls it
constexpr const char* kInterfaceVariable = "NCCL_SOCKET_IFNAME";

void add_local_rank(Variables& variables, const RankConfig& config) {
  variables[cluster::kLocalRankVariable] = std::to_string(config.local_rank);
  variables[cluster::kLocalWorldSizeVariable] = std::to_string(config.local_world_size);
  if (config.gpus) variables[kGpusVariable] = *config.gpus;
  if (config.gpu_memory_fraction)
    variables[kMemoryVariable] = base::str_cat(*config.gpu_memory_fraction);
}

}  // namespace

Variables rank_environment(const RankConfig& config,
                           const std::optional<cluster::ClusterKey>& key) {
  cluster::Address master;
  if (!config.master.empty()) master = cluster::parse_address(config.master);
  Variables variables = {{cluster::kGenerationVariable, std::to_string(config.generation)},
                         {cluster::kRankVariable, std::to_string(config.rank)},
                         {cluster::kWorldSizeVariable, std::to_string(config.world_size)},
                         {cluster::kMasterAddressVariable, master.host},
                         {cluster::kMasterPortVariable, std::to_string(master.port)},
                         {cluster::kRendezvousVariable, std::nullopt},
                         {kHostVariable, std::to_string(config.host)}};
  if (!config.rendezvous.empty()) variables[cluster::kRendezvousVariable] = config.rendezvous;
  add_local_rank(variables, config);
  if (config.nccl_interface) variables[kInterfaceVariable] = *config.nccl_interface;
  variables[cluster::kKeyVariable] = std::nullopt;
  variables[cluster::kKeyFileVariable] = std::nullopt;
  if (key) variables[cluster::kKeyFileVariable] = key_descriptor_path();
  return variables;
}

Variables independent_environment(const RankConfig& config) {
  Variables variables;
  for (const char* name :
       {cluster::kRendezvousVariable, cluster::kGenerationVariable, cluster::kRankVariable,
        cluster::kWorldSizeVariable, cluster::kMasterAddressVariable, cluster::kMasterPortVariable,
        cluster::kKeyVariable, cluster::kKeyFileVariable, kHostVariable})
    variables[name] = std::nullopt;
  add_local_rank(variables, config);
  return variables;
}

Variables task_environment(const RankConfig& config, const std::optional<cluster::ClusterKey>& key,
                           const Roles& roles) {
  Variables variables = independent_environment(config);
  const cluster::Task task = task_of(roles, config.rank);
  variables["TF_CONFIG"] =
      base::str_cat(R"({"cluster": )", config.cluster, R"(, "task": {"type": ")", task.job,
                    R"(", "index": )", task.index, "}}");
  if (key) variables[cluster::kKeyFileVariable] = key_descriptor_path();
  variables[cluster::kGenerationVariable] = std::to_string(config.generation);
  variables[cluster::kServerFolderVariable] = std::nullopt;
  if (is_server(roles, config.rank) && !roles.folder.empty())
    variables[cluster::kServerFolderVariable] = roles.folder.string();
  return variables;
}

std::string free_address(const std::string& host) {
  const base::FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  // For a host that is not loopback, the program may listen on any of its addresses.
  address.sin_addr.s_addr = htonl(cluster::is_loopback(host) ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof(address);
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  if (!probe.is_open() || ::bind(probe.number(), general, size) != 0 ||
      ::getsockname(probe.number(), general, &size) != 0) {
    throw Error(ErrorCode::kResourceExhausted, "No free port was found on this machine.");
  }
  return cluster::to_string(cluster::Address{host, ntohs(address.sin_port)});
}

}  // namespace brigade::launch
