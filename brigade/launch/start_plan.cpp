#include "brigade/launch/start_plan.h"

#include "brigade/base/environment.h"
#include "brigade/launch/command_line.h"
#include "brigade/launch/rank_environment.h"

namespace brigade::launch {

namespace {

std::vector<std::string> command_of(const JobOptions& options, const RankPlace& place) {
  std::vector<std::string> words = options.command;
  if (!options.arguments_by_rank.empty()) {
    const auto& more = options.arguments_by_rank[static_cast<std::size_t>(place.local_rank)];
    words.insert(words.end(), more.begin(), more.end());
  }
  return with_places(words, place.rank, place.world_size);
}

/// NCCL listens wherever it may, in the clear; what one host's processes have to say stays there.
std::optional<std::string> nccl_interface(const JobOptions& options) {
  if (options.hosts.count > 1 || base::environment("NCCL_SOCKET_IFNAME")) return std::nullopt;
  return "lo";
}

}  // namespace

std::vector<SpawnOptions> plan_start(const JobOptions& options, const Meeting& meeting,
                                     const std::vector<ResourceShare>& shares) {
  std::vector<SpawnOptions> plan;
  const auto count = static_cast<int>(shares.size());
  for (int local = 0; local < count; ++local) {
    const ResourceShare& share = shares[static_cast<std::size_t>(local)];
    const RankPlace place{.rank = meeting.first_rank + local,
                          .world_size = meeting.world_size,
                          .generation = meeting.generation,
                          .local_rank = local,
                          .local_world_size = count,
                          .host = options.hosts.index,
                          .rendezvous = meeting.rendezvous,
                          .master = meeting.master,
                          .gpus = share.gpus,
                          .nccl_interface = nccl_interface(options),
                          .gpu_memory_fraction = options.gpu_memory_fraction};
    plan.push_back({.command = command_of(options, place),
                    .environment = options.coupling == Coupling::kIndependent
                                       ? lone_environment(place)
                                       : rank_environment(place, options.key),
                    .key = options.coupling == Coupling::kIndependent ? std::nullopt : options.key,
                    .cores = share.cores,
                    .shim = options.shim});
  }
  return plan;
}

}  // namespace brigade::launch
