#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "brigade/comm/local/local_group.h"

namespace brigade::comm {

/// The communicators of a group, by rank.
using MakeCommunicators =
    std::function<std::vector<std::unique_ptr<Communicator>>(std::shared_ptr<LocalGroup>)>;

/// For tests: calls `body(i)` for each i below `count`, each on a separate thread, and waits.
inline void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

/// Rethrows the first error, if there is one.
inline void rethrow_first(const std::vector<std::exception_ptr>& thrown) {
  for (const std::exception_ptr& error : thrown) {
    if (error) std::rethrow_exception(error);
  }
}

/// For tests: calls `body(communicator)` for each rank of a new group of `world_size`, each on a
/// separate thread. Returns what each rank threw (null: nothing) when all have returned. A rank
/// that throws releases the others, as in a strategy.
inline std::vector<std::exception_ptr> run_ranks(
    int world_size, const std::function<void(Communicator&)>& body,
    const MakeCommunicators& make = make_local_communicators) {
  auto group = std::make_shared<LocalGroup>(
      world_size,
      LocalGroupOptions{.timeout = std::chrono::seconds(60), .spin = std::chrono::microseconds(0)});
  const auto communicators = make(group);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(world_size));
  run_threads(world_size, [&](int rank) {
    try {
      body(*communicators[rank]);
      group->leave(rank);
    } catch (const std::exception& error) {
      thrown[rank] = std::current_exception();
      group->abort(rank, error.what());
    }
  });
  return thrown;
}

/// The same, but no rank may throw: rethrows the first error.
inline void run_ranks_successfully(int world_size, const std::function<void(Communicator&)>& body) {
  rethrow_first(run_ranks(world_size, body));
}

}  // namespace brigade::comm
