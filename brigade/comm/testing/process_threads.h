#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/testing/ranks_as_threads.h"

namespace brigade::comm {

/// For tests: calls `body(communicator)` for each rank of a process communicator whose "processes"
/// are threads of this process. Returns what each rank threw (null: nothing) when all have
/// returned. A rank that throws is lost to the others, like a process that dies.
inline std::vector<std::exception_ptr> run_processes(
    int world_size, const CommunicationOptions& options,
    const std::function<void(ProcessCommunicator&)>& body) {
  let_ranks_be_threads();
  const auto memberships = cluster::testing::make_in_memory_memberships(world_size);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*make_process_communicator(memberships[rank], options));
      } catch (const std::exception& error) {
        thrown[rank] = std::current_exception();
        cluster::testing::lose(*memberships[rank], rank, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

/// The same, but no rank may throw: rethrows the first error.
inline void run_processes_successfully(int world_size, const CommunicationOptions& options,
                                       const std::function<void(ProcessCommunicator&)>& body) {
  for (const std::exception_ptr& error : run_processes(world_size, options, body)) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace brigade::comm
