#include "brigade/launch/start_plan.h"

#include "brigade/launch/command_line.h"
#include "brigade/launch/rank_environment.h"

namespace brigade::launch {

namespace {

std::vector<std::string> command_of(const JobOptions& options, int rank, int world_size) {
  std::vector<std::string> words = options.command;
  if (!options.arguments_by_rank.empty()) {
    const auto& more = options.arguments_by_rank[static_cast<std::size_t>(rank)];
    words.insert(words.end(), more.begin(), more.end());
  }
  return with_places(words, rank, world_size);
}

}  // namespace

std::vector<SpawnOptions> plan_start(const JobOptions& options, const Meeting& meeting,
                                     const std::vector<ResourceShare>& shares) {
  std::vector<SpawnOptions> plan;
  for (int rank = 0; rank < static_cast<int>(shares.size()); ++rank) {
    const ResourceShare& share = shares[static_cast<std::size_t>(rank)];
    const RankPlace place{.rank = rank,
                          .world_size = meeting.world_size,
                          .generation = meeting.generation,
                          .rendezvous = meeting.rendezvous,
                          .master = meeting.master,
                          .gpus = share.gpus};
    plan.push_back({.command = command_of(options, rank, meeting.world_size),
                    .environment = options.coupling == Coupling::kIndependent
                                       ? lone_environment(place)
                                       : rank_environment(place, options.key),
                    .cores = share.cores,
                    .shim = options.shim});
  }
  return plan;
}

}  // namespace brigade::launch
