#pragma once

#include <filesystem>
#include <optional>

namespace brigade::machine {

/// The CPU limit of the process's cgroup, in cores, for example 1.5; unset without a limit. `docker
/// run --cpus` and Kubernetes CPU limits set it, and the affinity mask does not show it. Reads
/// versions 1 and 2, and takes the tightest limit of the process's group and its parents.
///
/// `root` replaces the root of /proc and /sys, for tests.
std::optional<double> cgroup_cpu_limit(const std::filesystem::path& root = "/");

}  // namespace brigade::machine
