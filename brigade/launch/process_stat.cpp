#include "brigade/launch/process_stat.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "brigade/base/strings.h"

namespace brigade::launch {

// "4711 (a name with ) and blanks) S 17 ...": the name ends at the last parenthesis.
std::optional<ProcessStat> stat_of(pid_t pid) {
  std::ifstream file(base::str_cat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos || end + 4 > line.size()) return std::nullopt;
  return ProcessStat{.state = line[end + 2],
                     .parent = static_cast<pid_t>(std::atoi(line.c_str() + end + 4))};
}

std::int64_t times_off_core(pid_t pid) {
  std::ifstream file(base::str_cat("/proc/", pid, "/status"));
  std::int64_t times = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.substr(0, colon).ends_with("voluntary_ctxt_switches"))  // and "nonvoluntary"
      times += std::atoll(line.c_str() + colon + 1);
  }
  return times;
}

std::optional<pid_t> first_child_of(pid_t pid) {
  std::ifstream file(base::str_cat("/proc/", pid, "/task/", pid, "/children"));
  pid_t child = 0;
  if (!(file >> child)) return std::nullopt;
  return child;
}

}  // namespace brigade::launch
