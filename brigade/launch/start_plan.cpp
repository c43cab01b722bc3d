#include "brigade/launch/start_plan.h"

#include "brigade/base/environment.h"
#include "brigade/launch/command_line.h"
#include "brigade/launch/rank_environment.h"

namespace brigade::launch {

namespace {

std::vector<std::string> command_of(const JobOptions& options, const RankConfig& config) {
  std::vector<std::string> words = options.command;
  if (!options.arguments_by_rank.empty()) {
    const auto& more = options.arguments_by_rank[static_cast<std::size_t>(config.local_rank)];
    words.insert(words.end(), more.begin(), more.end());
  }
  return expand_placeholders(words, config.rank, config.world_size);
}

std::map<std::string, std::optional<std::string>> environment_of(const JobOptions& options,
                                                                 const RankConfig& config) {
  if (options.coupling == Coupling::kIndependent) return independent_environment(config);
  if (options.roles) return task_environment(config, options.key, *options.roles);
  return rank_environment(config, options.key);
}

/// NCCL listens on any interface without encryption; a job on one host keeps it to loopback.
std::optional<std::string> nccl_interface(const JobOptions& options) {
  if (options.hosts.count > 1 || base::environment("NCCL_SOCKET_IFNAME")) return std::nullopt;
  return "lo";
}

}  // namespace

std::vector<SpawnOptions> plan_start(const JobOptions& options, const GenerationConfig& generation,
                                     const std::vector<ResourceSlice>& slices) {
  std::vector<SpawnOptions> plan;
  const auto count = static_cast<int>(slices.size());
  for (int local = 0; local < count; ++local) {
    const ResourceSlice& slice = slices[static_cast<std::size_t>(local)];
    const RankConfig config{.rank = generation.first_rank + local,
                            .world_size = generation.world_size,
                            .generation = generation.generation,
                            .local_rank = local,
                            .local_world_size = count,
                            .host = options.hosts.index,
                            .rendezvous = generation.rendezvous,
                            .master = generation.master,
                            .cluster = generation.cluster,
                            .gpus = slice.gpus,
                            .nccl_interface = nccl_interface(options),
                            .gpu_memory_fraction = options.gpu_memory_fraction};
    plan.push_back({.command = command_of(options, config),
                    .environment = environment_of(options, config),
                    .key = options.coupling == Coupling::kIndependent ? std::nullopt : options.key,
                    .cores = slice.cores,
                    .shim = options.shim});
  }
  return plan;
}

}  // namespace brigade::launch
