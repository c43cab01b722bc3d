#include "brigade/ps/server_placement.h"

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::ps {

device::PlacementStrategy greedy_by_bytes(int servers) {
  return device::greedy_load_balancing_strategy(servers, device::byte_size_load);
}

std::vector<PlacedVariable> place_variables(std::span<const VariableSize> variables, int servers,
                                            const ServerPlacement& placement) {
  check_argument(servers > 0, base::str_cat("Variables are to be placed on ", servers,
                                            " servers; there must be at least 1."));
  const device::PlacementStrategy choose =
      placement ? placement(servers) : device::round_robin_strategy(servers);
  std::vector<PlacedVariable> placed;
  placed.reserve(variables.size());
  for (const auto& [name, bytes, is_trainable] : variables) {
    const int server =
        choose({.name = name, .kind = device::PlacedKind::kVariable, .bytes = bytes});
    if (server < 0 || server >= servers)
      throw Error(ErrorCode::kOutOfRange,
                  base::str_cat("The placement strategy chose server ", server, " for variable ",
                                base::quoted(name), "; there are ", servers, ", numbered from 0."));
    placed.push_back({.name = name, .server = server, .is_trainable = is_trainable});
  }
  return placed;
}

}  // namespace brigade::ps
