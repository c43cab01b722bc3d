#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/ps/store/parameter_store.h"

namespace brigade::ps {

/// [server]: what it has; unset for one that was not asked.
using ServerStates = std::vector<std::optional<StoredStates>>;

/// For checkpoints of synchronous training: calls `read`, which reads every server once, until all
/// that were asked are at the same step, and returns that reading. With backup workers a step may
/// be decided, and applied by some servers, between the readings of two. Pauses between readings.
/// Throws kDeadlineExceeded, naming the steps, if `timeout` has passed; kCancelled.
ServerStates states_of_one_step(const std::function<ServerStates()>& read,
                                std::chrono::milliseconds timeout,
                                const concurrency::CancelToken& cancel);

}  // namespace brigade::ps
