#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"

namespace brigade::ps {

/// The time in which a network has to transfer `bytes`, beside what a call takes without them.
std::chrono::milliseconds transfer_time(std::uint64_t bytes);

/// Whether a call that failed so is made again: the server was not reached, its answer was not, or
/// it was busy.
bool may_call_again(const Error& error);

struct RepeatedCallOptions {
  std::string callee;  ///< "parameter server 1 (host:port)", for errors and the log
  std::string caller;  ///< "/job:worker/task:1"
  /// When it is given up.
  std::chrono::steady_clock::time_point end;
  /// The first attempt's; twice as long after each that took all of it.
  std::chrono::milliseconds attempt_timeout{0};
  /// Ends the pauses between attempts.
  concurrency::CancelToken cancel = {};
};

/// Calls `attempt` until it returns, or fails with an error for which `may_call_again` does not
/// hold, which is thrown. The pauses between attempts get longer, and the log says who is waited
/// for. Throws kUnavailable, naming the callee and the last reason, at `end`; kCancelled.
///
/// Thread-safety: any thread.
void repeat_call(
    const RepeatedCallOptions& options,
    const std::function<void(std::chrono::steady_clock::time_point deadline)>& attempt);

}  // namespace brigade::ps
