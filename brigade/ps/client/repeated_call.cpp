#include "brigade/ps/client/repeated_call.h"

#include <algorithm>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The first attempt after a failure is made without a pause: most often a connection was lost.
milliseconds longer(milliseconds pause) {
  constexpr milliseconds kFirstPause{10};
  constexpr milliseconds kLongestPause{1000};
  return std::clamp(2 * pause, kFirstPause, kLongestPause);
}

std::string seconds_text(std::chrono::steady_clock::duration time) {
  const auto ms = std::chrono::duration_cast<milliseconds>(time).count();
  return base::str_cat(static_cast<double>(ms) / 1000, " s");
}

}  // namespace

milliseconds transfer_time(std::uint64_t bytes) {
  constexpr std::uint64_t kBytesPerMillisecond = 1000;
  return milliseconds(static_cast<std::int64_t>(bytes / kBytesPerMillisecond));
}

bool may_call_again(const Error& error) {
  return error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kDeadlineExceeded ||
         dynamic_cast<const ServerBusyError*>(&error) != nullptr;
}

void repeat_call(
    const RepeatedCallOptions& options,
    const std::function<void(std::chrono::steady_clock::time_point deadline)>& attempt) {
  const Clock::time_point begin = Clock::now();
  milliseconds allowed = options.attempt_timeout;
  milliseconds pause{0};
  bool is_waiting = false;
  while (true) {
    options.cancel.throw_if_cancelled(base::str_cat("a call of ", options.callee));
    const Clock::time_point deadline = std::min(options.end, Clock::now() + allowed);
    std::string reason;
    try {
      attempt(deadline);
      if (is_waiting) base::log_info("The ", options.callee, " is back.");
      return;
    } catch (const Error& error) {
      if (!may_call_again(error)) throw;
      reason = error.what();
      // Its messages may be larger than is known, or the network slower.
      if (Clock::now() >= deadline) allowed *= 2;
    }
    if (options.cancel.is_cancelled()) continue;
    if (pause.count() > 0 && !is_waiting) {
      is_waiting = true;
      base::log_warning("Waiting for the ", options.callee, ", for ",
                        seconds_text(options.end - begin), " at most: ", reason);
    }
    const auto left = std::chrono::ceil<milliseconds>(options.end - Clock::now());
    concurrency::interruptible_wait(std::min(pause, left), options.cancel);
    pause = longer(pause);
    if (Clock::now() >= options.end && !options.cancel.is_cancelled())
      throw Error(ErrorCode::kUnavailable, "The ", options.callee, " has not answered ",
                  options.caller, " for ", seconds_text(Clock::now() - begin),
                  ". Start it again, or allow it more time. The last reason: ", reason);
  }
}

}  // namespace brigade::ps
