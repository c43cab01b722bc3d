#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <filesystem>
#include <span>

#include "brigade/data/runtime/tuning.h"

namespace brigade::distribute {

/// The cores that `pipelines` walks may take each for their threads, beside replicas on these
/// devices: a replica on a CPU computes on a core of its own, and what is left of the `cores` of
/// this process is shared out; together they may always take one, for without input nothing
/// computes.
double cores_for_input(double cores, std::size_t cpu_replicas, std::size_t pipelines);

/// The same as what a walk is tuned by where neither it nor its dataset says something else
/// (`data::Dataset::with_options`). The process's cores are those that it may run on, as far as the
/// limit of its container lets it use their time. `root` stands in front of /proc and /sys, for
/// tests.
data::Tuning tuning_beside(std::span<const c10::Device> replicas, std::size_t pipelines,
                           const std::filesystem::path& root = "/");

}  // namespace brigade::distribute
