#include "brigade/launch/resources.h"

#include <map>
#include <sstream>

#include "brigade/base/strings.h"

namespace brigade::launch {

namespace {

std::vector<machine::CoreSet> divided_cores(const machine::Topology& topology, int processes) {
  std::vector<machine::CoreSet> parts(static_cast<std::size_t>(processes));
  // Both threads of a physical core go to one process, so that processes do not slow each other.
  std::vector<int> in_order;
  for (const machine::CoreSet& physical : topology.physical_cores)
    in_order.insert(in_order.end(), physical.cores().begin(), physical.cores().end());
  const auto count = static_cast<int>(in_order.size());
  if (!topology.may_pin() || count < processes) return parts;
  for (int process = 0; process < processes; ++process) {
    const auto cut = [&](int part) { return in_order.begin() + count * part / processes; };
    parts[static_cast<std::size_t>(process)] =
        machine::CoreSet(std::vector<int>(cut(process), cut(process + 1)));
  }
  return parts;
}

std::string gpus_of(const std::vector<std::string>& gpus, int process, int processes) {
  const auto count = static_cast<int>(gpus.size());
  if (count < processes) return gpus[static_cast<std::size_t>(process % count)];
  const auto cut = [&](int part) { return gpus.begin() + count * part / processes; };
  return base::join(std::vector<std::string>(cut(process), cut(process + 1)), ",");
}

}  // namespace

std::vector<ResourceSlice> divide_resources(const machine::Topology& topology,
                                            const std::optional<std::vector<std::string>>& gpus,
                                            int processes) {
  std::vector<ResourceSlice> slices;
  const std::vector<machine::CoreSet> cores = divided_cores(topology, processes);
  for (int process = 0; process < processes; ++process) {
    ResourceSlice slice{.cores = cores[static_cast<std::size_t>(process)]};
    if (gpus && !gpus->empty()) slice.gpus = gpus_of(*gpus, process, processes);
    slices.push_back(std::move(slice));
  }
  return slices;
}

std::vector<ResourceSlice> divide_resources_for(int users, const machine::Topology& topology,
                                                const std::optional<std::vector<std::string>>& gpus,
                                                int processes) {
  std::vector<ResourceSlice> slices = divide_resources(topology, std::nullopt, processes);
  if (!gpus || gpus->empty()) return slices;
  for (int process = 0; process < processes; ++process) {
    slices[static_cast<std::size_t>(process)].gpus =
        process < users ? gpus_of(*gpus, process, users) : "";
  }
  return slices;
}

std::vector<std::string> shared_cards(const std::vector<ResourceSlice>& slices, int first_rank) {
  std::map<std::string, std::vector<std::string>> users;
  int rank = first_rank;
  for (const ResourceSlice& slice : slices) {
    std::istringstream cards(slice.gpus.value_or(""));
    for (std::string card; std::getline(cards, card, ',');)
      users[card].push_back(std::to_string(rank));
    ++rank;
  }
  std::vector<std::string> lines;
  for (const auto& [card, ranks] : users) {
    if (ranks.size() < 2) continue;
    lines.push_back(base::str_cat("GPU ", card, " is shared by the processes ",
                                  base::join(ranks, ", "), ", which also share its memory."));
  }
  return lines;
}

}  // namespace brigade::launch
