#pragma once

#include <string>
#include <vector>

#include "brigade/device/device.h"

namespace brigade::device {

/// The environment variable with the fraction of each GPU's memory that a process may use. `brigade
/// launch --gpu-memory-fraction` and users set it. Unset: all of it.
inline constexpr const char* kGpuMemoryVariable = "BRIGADE_GPU_MEMORY_FRACTION";

/// Parses its value. Throws kInvalidArgument, naming the variable, unless it is a number above 0
/// and up to 1.
double parse_memory_fraction(const std::string& text);

/// Limits this process to that fraction of the memory of these devices' GPUs; allocating more
/// through libtorch is then an error, as on a smaller GPU. Memory used by CUDA itself (some hundred
/// MB per process) is not counted. `resolve_devices` and `available_gpus` do this with what they
/// return. Without the variable, and for CPUs, nothing happens. TensorFlow:
/// `per_process_gpu_memory_fraction`. Throws as parse_memory_fraction.
void limit_gpu_memory(const std::vector<Device>& devices);

}  // namespace brigade::device
