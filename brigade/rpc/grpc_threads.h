#pragma once

#include <string>
#include <system_error>

#include "brigade/base/error.h"

namespace brigade::rpc {

/// Starts as many threads as gRPC needs, and ends them. Throws kResourceExhausted if the system
/// refuses one (`ulimit -u`, `ulimit -v`, a cgroup limit): gRPC itself would wait forever for a
/// thread that it does not get. Does nothing in a build without gRPC.
void require_grpc_threads();

/// kResourceExhausted: the system refused a thread. `how` says when.
Error thread_refusal(const std::string& how, const std::system_error& error);

/// Calls `start`, which starts gRPC, if there are enough threads for it. Throws as
/// `require_grpc_threads`.
template <class Start>
auto with_grpc_threads(const Start& start) {
  require_grpc_threads();
  try {
    return start();
  } catch (const std::system_error& error) {
    throw thread_refusal("one could not be started", error);
  }
}

}  // namespace brigade::rpc
