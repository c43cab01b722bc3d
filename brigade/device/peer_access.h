#pragma once

#include <string>
#include <vector>

#include "brigade/device/device.h"

namespace brigade::device {

/// How one device reaches another's memory.
enum class Reach {
  kSame,  ///< the same memory: the device itself, logical GPUs of one card, CPUs among each other
  kPeer,  ///< directly, card to card (NVLink, or PCIe peer-to-peer)
  kHost,  ///< by a copy through the host
};
std::string_view to_string(Reach reach);

/// Asks the driver; without CUDA in the program every way between CPU and GPU is kHost.
Reach reach(const Device& from, const Device& to);

/// A line for each device: how it reaches every other, for `brigade devices`. [from][to].
std::vector<std::vector<Reach>> reach_table(const std::vector<Device>& devices);

/// What is to be said if `controller` is a GPU to which a tower's GPU has no direct way: every step
/// then copies through the host twice. Empty if all is well. The caller logs it once.
std::string controller_warning(const Device& controller, const std::vector<Device>& towers);

}  // namespace brigade::device
