#include "brigade/machine/cgroup.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

#include "brigade/base/strings.h"

namespace brigade::machine {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  return std::string(base::trim(line));
}

std::optional<double> ratio(std::string_view quota, std::string_view period) {
  const auto time = base::parse_int(quota);
  const auto every = base::parse_int(period);
  if (!time || !every || *time <= 0 || *every <= 0)
    return std::nullopt;  // "max" and -1 mean no limit
  return static_cast<double>(*time) / static_cast<double>(*every);
}

// Version 2: "150000 100000" or "max 100000".
std::optional<double> unified_limit(const fs::path& group) {
  const auto line = first_line(group / "cpu.max");
  if (!line) return std::nullopt;
  const auto words = base::split(*line, ' ');
  return words.size() == 2 ? ratio(words[0], words[1]) : std::nullopt;
}

// Version 1: two files.
std::optional<double> legacy_limit(const fs::path& group) {
  const auto quota = first_line(group / "cpu.cfs_quota_us");
  const auto period = first_line(group / "cpu.cfs_period_us");
  return quota && period ? ratio(*quota, *period) : std::nullopt;
}

std::optional<double> tighter(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// A container often sees only its own part of the tree, so parent groups may be missing: they set
// no limit.
template <class ReadLimit>
std::optional<double> tightest_upwards(const fs::path& mount, const std::string& group,
                                       ReadLimit read) {
  std::optional<double> limit = read(mount);
  for (fs::path path = fs::path(group).relative_path(); !path.empty(); path = path.parent_path()) {
    limit = tighter(limit, read(mount / path));
  }
  return limit;
}

bool holds_cpu_controller(std::string_view controllers) {
  const auto names = base::split(controllers, ',');
  return std::find(names.begin(), names.end(), "cpu") != names.end();
}

// One line of /proc/self/cgroup: "ID:CONTROLLERS:PATH"; version 2 has ID 0 and no controllers.
std::optional<double> limit_of_line(const std::string& line, const fs::path& mounts) {
  const auto first = line.find(':');
  const auto second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  const std::string controllers = line.substr(first + 1, second - first - 1);
  const std::string group = line.substr(second + 1);
  if (controllers.empty()) {
    return tighter(tightest_upwards(mounts, group, unified_limit),
                   tightest_upwards(mounts / "unified", group, unified_limit));
  }
  if (!holds_cpu_controller(controllers)) return std::nullopt;
  return tighter(tightest_upwards(mounts / controllers, group, legacy_limit),
                 tightest_upwards(mounts / "cpu", group, legacy_limit));
}

}  // namespace

std::optional<double> cgroup_cpu_limit(const fs::path& root) {
  std::ifstream groups(root / "proc/self/cgroup");
  std::optional<double> limit;
  for (std::string line; std::getline(groups, line);) {
    limit = tighter(limit, limit_of_line(line, root / "sys/fs/cgroup"));
  }
  return limit;
}

}  // namespace brigade::machine
