#include "brigade/launch/descendants.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <memory>
#include <thread>

#include "brigade/launch/process_stat.h"

namespace brigade::launch {

namespace {

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  if (!directory) return children;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    const auto pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (const auto stat = stat_of(pid)) children.emplace(stat->parent, pid);
  }
  return children;
}

std::vector<pid_t> below(pid_t ancestor, const std::vector<pid_t>& spared) {
  const auto children = children_by_parent();
  std::vector<pid_t> found;
  std::vector<pid_t> open = {ancestor};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto [begin, end] = children.equal_range(parent);
    for (auto child = begin; child != end; ++child) {
      if (std::ranges::count(spared, child->second) > 0) continue;
      found.push_back(child->second);
      open.push_back(child->second);
    }
  }
  return found;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t ancestor) {
  return below(ancestor, {});
}

bool kill_descendants(pid_t ancestor, std::chrono::milliseconds patience,
                      const std::vector<pid_t>& spared, const std::stop_token& stop) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    const std::vector<pid_t> left = below(ancestor, spared);
    if (left.empty()) return true;
    for (const pid_t pid : left) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, WNOHANG);  // fails if it is not a child of this process
    }
    if (std::chrono::steady_clock::now() > deadline || stop.stop_requested()) return false;
    // The system does not report the end of other processes' children, so poll.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace brigade::launch
