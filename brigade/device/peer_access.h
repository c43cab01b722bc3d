#pragma once

#include <string>
#include <vector>

#include "brigade/device/device.h"

namespace brigade::device {

/// How one device accesses another's memory.
enum class Reach {
  kSame,  ///< the same memory: the device itself, logical GPUs of one card, or two CPUs
  kPeer,  ///< directly between GPUs (NVLink, or PCIe peer-to-peer)
  kHost,  ///< by a copy through the host
};
std::string_view to_string(Reach reach);

/// Queries the driver; without CUDA in the program every access between CPU and GPU is kHost.
Reach reach(const Device& from, const Device& to);

/// A line for each device: how it accesses every other one, for `brigade devices`. [from][to].
std::vector<std::vector<Reach>> reach_table(const std::vector<Device>& devices);

/// A warning if `controller` is a GPU without direct access from a tower's GPU: every step then
/// copies through the host twice. Empty if all towers have access. The caller logs it once.
std::string controller_warning(const Device& controller, const std::vector<Device>& towers);

}  // namespace brigade::device
