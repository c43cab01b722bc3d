#pragma once

#include <system_error>

namespace brigade::rpc {

/// Starts as many threads as gRPC takes, and ends them. Throws kResourceExhausted where the system
/// refuses one (`ulimit -u`, `ulimit -v`, a control group's limit): gRPC itself would wait for ever
/// for a thread that it does not get.
void require_threads();

/// What becomes of a thread that was refused later.
[[noreturn]] void throw_no_thread(const std::system_error& error);

}  // namespace brigade::rpc
