#include "brigade/cluster/resolver.h"

#include <array>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_spec.h"
#include "brigade/cluster/environment_resolvers.h"
#include "brigade/cluster/rank_assignment.h"
#include "brigade/cluster/slurm.h"
#include "brigade/cluster/variable_reader.h"
#include "brigade/io/file_system.h"

namespace brigade::cluster {
namespace {

struct Source {
  const char* variable;  // the source is present if it is set
  const char* name;
  std::optional<ClusterConfig> (*resolve)(const Environment&);
};

// In order of precedence.
constexpr std::array<Source, 6> kSources = {{
    {kRendezvousVariable, "brigade launch", resolve_launched},
    {"TF_CONFIG", "TF_CONFIG", resolve_tf_config},
    {kRankVariable, "torchrun", resolve_torchrun},
    {kKubernetesCompletionsVariable, "Kubernetes", resolve_kubernetes},
    {"OMPI_COMM_WORLD_RANK", "Open MPI", resolve_open_mpi},
    {"SLURM_STEP_NODELIST", "Slurm", resolve_slurm},
}};

bool is_json(std::string_view text) {
  return base::trim(text).starts_with('{');
}

bool is_flag(std::string_view text) {
  return text.find('=') != std::string_view::npos;
}

std::string name_of(const std::string& cluster) {
  return is_json(cluster) || is_flag(cluster) ? "the cluster flag"
                                              : base::str_cat("the file ", cluster);
}

// "chief" is chief:0; of several workers each would be the first.
Task task_of_flag(const std::string& text, const ClusterSpec& cluster) {
  Task task = parse_task_flag(text);
  const bool has_index = text.find_first_of(":/") != std::string::npos;
  if (has_index || cluster.num_tasks(task.job) < 2) return task;
  const std::vector<int> indices = cluster.task_indices(task.job);
  throw Error(ErrorCode::kInvalidArgument, "The task ", base::quoted(text),
              " has no index, and there are ", indices.size(), " tasks of this type: write ", text,
              ":", indices.front(), ", or another of the indices ", base::listed(indices, ", "),
              ".");
}

ClusterConfig resolve_flags(const ResolveOptions& options) {
  DescribedCluster described = parse_cluster(options.cluster);
  const std::string source = name_of(options.cluster);
  check_argument(!described.cluster.is_empty(), source, ": it has no \"cluster\".");
  if (!options.task.empty()) described.task = task_of_flag(options.task, described.cluster);
  return assign_rank(std::move(described), source);
}

// Without this check, a forgotten RANK would make every process train alone.
void check_torchrun_is_complete(const Environment& environment) {
  const VariableReader variables(environment, "the torchrun environment");
  const auto size = variables.number(kWorldSizeVariable, 1);
  if (size && *size > 1 && variables.has(kMasterAddressVariable)) {
    variables.required_text(kRankVariable);
  }
}

}  // namespace

DescribedCluster parse_cluster(const std::string& text) {
  if (is_json(text)) return parse_cluster_json(text, name_of(text));
  if (is_flag(text)) return {.cluster = parse_cluster_flag(text)};
  return parse_cluster_json(io::read_at_most(*io::posix_file_system(), text, io::kMostBytesOfText),
                            name_of(text));
}

ClusterConfig resolve_cluster(const Environment& environment, const ResolveOptions& options) {
  if (!options.cluster.empty()) return resolve_flags(options);
  check_argument(options.task.empty(), "The task ", base::quoted(options.task),
                 " is given without a cluster; give the cluster's addresses too.");
  for (const Source& source : kSources) {
    if (auto config = source.resolve(environment)) return *std::move(config);
  }
  check_torchrun_is_complete(environment);
  ClusterConfig alone;
  alone.source = kNoCluster;
  return alone;
}

std::vector<std::string> cluster_sources(const Environment& environment) {
  std::vector<std::string> names;
  for (const Source& source : kSources) {
    if (environment(source.variable)) names.emplace_back(source.name);
  }
  return names;
}

}  // namespace brigade::cluster
