#pragma once

#include <chrono>

#include "brigade/concurrency/cancel_token.h"

namespace brigade::train {

/// Waits for `time`, or until the token is cancelled.
void interruptible_wait(std::chrono::milliseconds time, const concurrency::CancelToken& cancel);

}  // namespace brigade::train
