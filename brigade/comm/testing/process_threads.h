#pragma once

#include <stdlib.h>

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/hierarchical.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/testing/rank_threads.h"

namespace brigade::comm {

/// For tests in which the ranks of Gloo are threads of one process; call it before they start. It
/// disables libtorch's flight recorder, which all groups of a process write without a lock. The
/// recorder reads this variable at its first use.
inline void let_ranks_be_threads() {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);
}

/// For tests: calls `body(communicator)` for each rank of a process communicator whose "processes"
/// are threads of this process. Returns what each rank threw (null: nothing) when all have
/// returned. A rank that throws is lost to the others, like a process that dies.
inline std::vector<std::exception_ptr> run_processes(
    int world_size, const CommunicationOptions& options,
    const std::function<void(ProcessCommunicator&)>& body) {
  let_ranks_be_threads();
  const auto memberships = cluster::testing::make_in_memory_memberships(world_size);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(world_size));
  run_threads(world_size, [&](int rank) {
    try {
      body(*make_process_communicator(memberships[rank], options));
    } catch (const std::exception& error) {
      thrown[rank] = std::current_exception();
      cluster::testing::lose(*memberships[rank], rank, error.what());
    }
  });
  return thrown;
}

/// The same, but no rank may throw: rethrows the first error.
inline void run_processes_successfully(int world_size, const CommunicationOptions& options,
                                       const std::function<void(ProcessCommunicator&)>& body) {
  rethrow_first(run_processes(world_size, options, body));
}

/// For tests: calls `body(communicator)` for each replica of each process, all as threads of this
/// process. `replicas` is the number of each process's replicas. Returns what each replica threw
/// (null: nothing) when all have returned. A replica that throws releases the others of its
/// process, and its process is lost to the rest.
inline std::vector<std::exception_ptr> run_hierarchy(const std::vector<int>& replicas,
                                                     const std::function<void(Communicator&)>& body,
                                                     const CommunicationOptions& options = {
                                                         .timeout = std::chrono::seconds(60)}) {
  let_ranks_be_threads();
  const int processes = static_cast<int>(replicas.size());
  const auto memberships = cluster::testing::make_in_memory_memberships(processes);
  const ProcessLayout whole{.process = 0, .replicas = replicas};
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(whole.num_replicas()));
  run_threads(processes, [&](int process) {
    const ProcessLayout layout{.process = process, .replicas = replicas};
    auto group = std::make_shared<LocalGroup>(
        replicas[process], LocalGroupOptions{.timeout = std::chrono::seconds(60),
                                             .spin = std::chrono::microseconds(0)});
    const auto all = make_hierarchical_communicators(
        group, make_local_communicators(group),
        make_process_communicator(memberships[process], options), layout);
    run_threads(replicas[process], [&](int local) {
      try {
        body(*all[local]);
        group->leave(local);
      } catch (const std::exception& error) {
        thrown[layout.first_replica() + local] = std::current_exception();
        group->abort(local, error.what());
        cluster::testing::lose(*memberships[process], process, error.what());
      }
    });
  });
  return thrown;
}

/// The same, but no replica may throw: rethrows the first error.
inline void run_hierarchy_successfully(const std::vector<int>& replicas,
                                       const std::function<void(Communicator&)>& body,
                                       const CommunicationOptions& options = {
                                           .timeout = std::chrono::seconds(60)}) {
  rethrow_first(run_hierarchy(replicas, body, options));
}

}  // namespace brigade::comm
