#include "brigade/launch/rank_environment.h"

#include "brigade/cluster/launch_environment.h"

namespace brigade::launch {

std::map<std::string, std::string> rank_environment(const RankPlace& place,
                                                    const std::optional<cluster::ClusterKey>& key) {
  const std::size_t colon = place.rendezvous.rfind(':');
  std::map<std::string, std::string> variables = {
      {cluster::kRendezvousVariable, place.rendezvous},
      {cluster::kGenerationVariable, std::to_string(place.generation)},
      {cluster::kRankVariable, std::to_string(place.rank)},
      {cluster::kWorldSizeVariable, std::to_string(place.world_size)},
      {cluster::kLocalRankVariable, std::to_string(place.local_rank.value_or(place.rank))},
      {cluster::kLocalWorldSizeVariable,
       std::to_string(place.local_world_size.value_or(place.world_size))},
      {cluster::kMasterAddressVariable, place.rendezvous.substr(0, colon)},
      {cluster::kMasterPortVariable, place.rendezvous.substr(colon + 1)}};
  if (place.gpus) variables["CUDA_VISIBLE_DEVICES"] = *place.gpus;
  if (key) variables["BRIGADE_CLUSTER_KEY"] = key->to_hex();
  return variables;
}

}  // namespace brigade::launch
