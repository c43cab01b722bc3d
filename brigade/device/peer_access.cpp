#include "brigade/device/peer_access.h"

#include <array>
#include <cstddef>

#include "brigade/base/strings.h"
#include "brigade/device/cuda_cards.h"

namespace brigade::device {

std::string_view to_string(Reach reach) {
  constexpr std::array<std::string_view, 3> kNames = {"same", "peer", "host"};
  return kNames[static_cast<std::size_t>(reach)];
}

Reach reach(const Device& from, const Device& to) {
  if (from.torch_device == to.torch_device || (from.is_cpu() && to.is_cpu())) return Reach::kSame;
  if (from.is_cpu() || to.is_cpu()) return Reach::kHost;
  return has_peer_access(from.torch_device.index(), to.torch_device.index()) ? Reach::kPeer
                                                                             : Reach::kHost;
}

std::vector<std::vector<Reach>> reach_table(const std::vector<Device>& devices) {
  std::vector<std::vector<Reach>> table;
  for (const Device& from : devices) {
    auto& row = table.emplace_back();
    for (const Device& to : devices) row.push_back(reach(from, to));
  }
  return table;
}

std::string controller_warning(const Device& controller, const std::vector<Device>& towers) {
  if (controller.is_cpu()) return "";
  std::vector<std::string> cut_off;
  for (const Device& tower : towers) {
    const bool is_linked =
        reach(controller, tower) != Reach::kHost && reach(tower, controller) != Reach::kHost;
    if (!tower.is_cpu() && !is_linked) cut_off.push_back(tower.name.to_string());
  }
  if (cut_off.empty()) return "";
  return base::str_cat("The controller ", controller.name.to_string(), " has no direct access to ",
                       base::join(cut_off, ", "),
                       ": every step copies variables and gradients through the host. A controller "
                       "on cpu:0 may be as fast; `brigade devices` shows which cards reach which.");
}

}  // namespace brigade::device
