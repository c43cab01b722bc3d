#pragma once

#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>

namespace brigade::rpc {

/// Ends a call at `deadline`, which may be any time.
inline void set_call_deadline(grpc::ClientContext& context,
                              std::chrono::steady_clock::time_point deadline) {
  constexpr std::chrono::hours kLongest{24};
  const auto left = deadline - std::chrono::steady_clock::now();
  context.set_deadline(std::chrono::system_clock::now() +
                       std::min<std::chrono::steady_clock::duration>(left, kLongest));
}

}  // namespace brigade::rpc
