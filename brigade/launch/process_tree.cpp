#include "brigade/launch/process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "brigade/base/handles.h"
#include "brigade/base/strings.h"

namespace brigade::launch {
namespace {

constexpr std::chrono::seconds kSweepPatience{10};

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  const base::Handle<DIR, ::closedir> directory(::opendir("/proc"));
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

void DescendantSweep::begin(std::vector<pid_t> spared) {
  is_running_ = true;
  const auto work = [this, spared = std::move(spared)](const std::stop_token& stop) {
    kill_descendants(::getpid(), kSweepPatience, spared, stop);
    ends_.put({});
  };
  try {
    thread_ = std::jthread(work);
  } catch (const std::system_error&) {
    work({});  // no thread can be started: run it here
  }
}

bool DescendantSweep::is_running() {
  if (is_running_ && !ends_.take().empty()) is_running_ = false;
  return is_running_;
}

}  // namespace brigade::launch
