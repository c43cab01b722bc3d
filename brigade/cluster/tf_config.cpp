#include "brigade/cluster/tf_config.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/rank_assignment.h"

namespace brigade::cluster {

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

}  // namespace brigade::cluster
