#pragma once

#include <filesystem>
#include <optional>

namespace brigade::machine {

/// How many cores' worth of time the process's control group allows it, for example 1.5; unset
/// where nothing limits it. This is what `docker run --cpus` and a Kubernetes CPU limit set, and
/// what the affinity mask does not show. Reads versions 1 and 2, and takes the tightest limit from
/// the process's group upwards.
///
/// `root` stands in front of /proc and /sys, for tests.
std::optional<double> cgroup_cpu_limit(const std::filesystem::path& root = "/");

}  // namespace brigade::machine
