#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "brigade/device/device.h"

namespace brigade::device {

/// The most bytes that libtorch has had in use at a time on the GPUs of these devices, each card
/// counted once; caches and what CUDA itself uses are not counted. None if there is no GPU among
/// them.
std::optional<std::int64_t> gpu_memory_peak(std::span<const Device> devices);

}  // namespace brigade::device
