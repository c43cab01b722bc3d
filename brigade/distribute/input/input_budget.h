#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <filesystem>
#include <span>

#include "brigade/data/runtime/tuning.h"

namespace brigade::distribute {

/// How many cores each of `pipelines` input pipelines may use for its threads. Each replica on a
/// CPU keeps one of the process's `cores`; the rest is divided evenly among the pipelines. Together
/// they always get at least one core, because replicas cannot compute without input.
double cores_for_input(double cores, std::size_t cpu_replicas, std::size_t pipelines);

/// The same as the default tuning of an iterator, used where neither the iterator nor its dataset
/// (`data::Dataset::with_options`) sets a budget. The process's cores are those that it may run on,
/// up to the CPU limit of its container. `root` is a prefix of /proc and /sys, for tests.
data::Tuning input_tuning(std::span<const c10::Device> replicas, std::size_t pipelines,
                          const std::filesystem::path& root = "/");

}  // namespace brigade::distribute
