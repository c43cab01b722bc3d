#pragma once

#include <system_error>

namespace brigade::rpc {

/// Starts as many threads as gRPC needs, and ends them. Throws kResourceExhausted if the system
/// refuses one (`ulimit -u`, `ulimit -v`, a cgroup limit): gRPC itself would wait forever for a
/// thread that it does not get.
void require_threads();

/// Throws the same error for a thread that is refused later.
[[noreturn]] void throw_no_thread(const std::system_error& error);

}  // namespace brigade::rpc
