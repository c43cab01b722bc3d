#include "brigade/ps/client/states_of_step.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::ps {
namespace {

constexpr std::chrono::milliseconds kFirstReadPause{1};
constexpr std::chrono::milliseconds kLongestReadPause{100};

bool have_one_step(const ServerStates& states) {
  std::optional<std::int64_t> step;
  for (const auto& each : states) {
    if (!each) continue;
    if (step.value_or(each->step) != each->step) return false;
    step = each->step;
  }
  return true;
}

std::string steps_text(const ServerStates& states) {
  std::vector<std::string> texts;
  for (std::size_t server = 0; server < states.size(); ++server)
    if (states[server]) texts.push_back(base::str_cat("ps:", server, " at ", states[server]->step));
  return base::join(texts, ", ");
}

}  // namespace

ServerStates states_of_one_step(const std::function<ServerStates()>& read,
                                std::chrono::milliseconds timeout,
                                const concurrency::CancelToken& cancel) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  // The first repetition comes without one: most often the next reading succeeds.
  std::chrono::milliseconds pause{0};
  while (true) {
    ServerStates states = read();
    if (have_one_step(states)) return states;
    if (std::chrono::steady_clock::now() >= end)
      throw Error(ErrorCode::kDeadlineExceeded,
                  "A checkpoint needs the state of all parameter servers after one step, and in ",
                  timeout.count(), " ms no reading found it; the last was of ", steps_text(states),
                  ". Allow it more time (server_timeout).");
    concurrency::interruptible_wait(pause, cancel);
    cancel.throw_if_cancelled("reading the parameter servers' state for a checkpoint");
    pause = std::clamp(2 * pause, kFirstReadPause, kLongestReadPause);
  }
}

}  // namespace brigade::ps
