#include "brigade/launch/sweep.h"

#include <unistd.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "brigade/launch/process_tree.h"

namespace brigade::launch {

namespace {

constexpr std::chrono::seconds kSweepPatience{10};

}  // namespace

void Sweep::begin(std::vector<pid_t> spared) {
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

bool Sweep::is_running() {
  if (is_running_ && !ends_.take().empty()) is_running_ = false;
  return is_running_;
}

}  // namespace brigade::launch
