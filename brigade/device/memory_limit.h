#pragma once

#include <optional>
#include <string>
#include <vector>

#include "brigade/device/device.h"

namespace brigade::device {

/// What a process may have of each of its cards' memory: `brigade launch --gpu-memory-fraction` and
/// users set it. Nothing: as much as there is.
inline constexpr const char* kGpuMemoryVariable = "BRIGADE_GPU_MEMORY_FRACTION";

/// Reads its value. Throws kInvalidArgument, naming the variable, unless it is a number above 0 and
/// up to 1.
double parse_memory_fraction(const std::string& text);

/// Holds this process to that share of the cards of these devices; asking libtorch for more is then
/// an error, as on a smaller card. What CUDA itself takes on a card (some hundred MB a process) is
/// not counted. `resolve_devices` and `available_gpus` do this with what they return. Without the
/// variable, and for CPUs, nothing happens. TensorFlow: `per_process_gpu_memory_fraction`. Throws
/// as parse_memory_fraction.
void limit_gpu_memory(const std::vector<Device>& devices);

}  // namespace brigade::device
