#include "brigade/launch/rank_environment.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/launch_environment.h"
#include "brigade/launch/file_descriptor.h"

namespace brigade::launch {

namespace {

using Variables = std::map<std::string, std::optional<std::string>>;

constexpr const char* kGpusVariable = "CUDA_VISIBLE_DEVICES";

void add_place_on_host(Variables& variables, const RankPlace& place) {
  variables[cluster::kLocalRankVariable] = std::to_string(place.local_rank.value_or(place.rank));
  variables[cluster::kLocalWorldSizeVariable] =
      std::to_string(place.local_world_size.value_or(place.world_size));
  if (place.gpus) variables[kGpusVariable] = *place.gpus;
}

}  // namespace

Variables rank_environment(const RankPlace& place, const std::optional<cluster::ClusterKey>& key) {
  const std::size_t colon = place.master.rfind(':');
  Variables variables = {{cluster::kGenerationVariable, std::to_string(place.generation)},
                         {cluster::kRankVariable, std::to_string(place.rank)},
                         {cluster::kWorldSizeVariable, std::to_string(place.world_size)},
                         {cluster::kMasterAddressVariable, place.master.substr(0, colon)},
                         {cluster::kMasterPortVariable, place.master.substr(colon + 1)},
                         {cluster::kRendezvousVariable, std::nullopt}};
  if (!place.rendezvous.empty()) variables[cluster::kRendezvousVariable] = place.rendezvous;
  add_place_on_host(variables, place);
  if (key) variables["BRIGADE_CLUSTER_KEY"] = key->to_hex();
  return variables;
}

Variables lone_environment(const RankPlace& place) {
  Variables variables;
  for (const char* name :
       {cluster::kRendezvousVariable, cluster::kGenerationVariable, cluster::kRankVariable,
        cluster::kWorldSizeVariable, cluster::kMasterAddressVariable, cluster::kMasterPortVariable})
    variables[name] = std::nullopt;
  add_place_on_host(variables, place);
  return variables;
}

std::string free_loopback_address() {
  const FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  if (!probe.is_open() || ::bind(probe.number(), general, size) != 0 ||
      ::getsockname(probe.number(), general, &size) != 0) {
    throw Error(ErrorCode::kResourceExhausted, "No free port was found on 127.0.0.1.");
  }
  return base::str_cat("127.0.0.1:", ntohs(address.sin_port));
}

}  // namespace brigade::launch
