#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "brigade/comm/hierarchical.h"
#include "brigade/comm/testing/process_threads.h"

namespace brigade::comm {

/// For tests: calls `body(communicator)` for each replica of each process, all as threads of this
/// process. `replicas` is the number of each process's replicas. Returns what each replica threw
/// (null: nothing) when all have returned. A replica that throws releases the others of its
/// process, and its process is lost to the rest.
inline std::vector<std::exception_ptr> run_hierarchy(
    const std::vector<int>& replicas, const std::function<void(Communicator&)>& body) {
  const int processes = static_cast<int>(replicas.size());
  const auto memberships = cluster::testing::make_in_memory_memberships(processes);
  const ProcessLayout whole{.process = 0, .replicas = replicas};
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(whole.num_replicas()));
  const auto run_process = [&](int process) {
    ProcessLayout layout{.process = process, .replicas = replicas};
    auto group = std::make_shared<LocalGroup>(
        replicas[process], LocalGroupOptions{.timeout = std::chrono::seconds(60),
                                             .spin = std::chrono::microseconds(0)});
    const auto all = make_hierarchical_communicators(
        group, make_local_communicators(group),
        make_process_communicator(memberships[process], {.timeout = std::chrono::seconds(60)}),
        layout);
    std::vector<std::thread> threads;
    for (int local = 0; local < replicas[process]; ++local) {
      threads.emplace_back([&, local] {
        try {
          body(*all[local]);
          group->leave(local);
        } catch (const std::exception& error) {
          thrown[layout.first_replica() + local] = std::current_exception();
          group->abort(local, error.what());
          cluster::testing::lose(*memberships[process], process, error.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process)
    threads.emplace_back([&, process] { run_process(process); });
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

/// The same, but no replica may throw: rethrows the first error.
inline void run_hierarchy_successfully(const std::vector<int>& replicas,
                                       const std::function<void(Communicator&)>& body) {
  for (const std::exception_ptr& error : run_hierarchy(replicas, body)) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace brigade::comm
