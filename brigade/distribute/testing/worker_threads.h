#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/testing/process_threads.h"
#include "brigade/distribute/strategies/multi_worker_mirrored_strategy.h"
#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {

/// For tests: options of a worker with `replicas` logical CPUs that may share cores.
inline MultiWorkerMirroredOptions worker_cpus(int replicas, std::uint64_t seed = 0) {
  MultiWorkerMirroredOptions options{.devices = cpus(replicas).devices,
                                     .allow_oversubscription = true,
                                     .seed = seed,
                                     .timeout = std::chrono::seconds(60)};
  options.communication.timeout = std::chrono::seconds(60);
  options.join.start_timeout = std::chrono::seconds(60);
  return options;
}

/// For tests: runs the workers of a job as threads of this process; worker w has `replicas[w]`
/// devices, and all together `logical_replicas` replicas, or one on each device; `audit_every` as
/// the option. Calls `work(strategy)` in each. A worker that throws is lost to the others; the
/// first error is thrown when all have ended.
inline void run_workers(const std::vector<int>& replicas,
                        const std::function<void(MultiWorkerMirroredStrategy&)>& work,
                        const comm::CommunicationOptions& communication = {},
                        std::uint64_t seed = 0, int logical_replicas = 0, int audit_every = 0) {
  comm::let_ranks_be_threads();
  auto memberships =
      cluster::testing::make_in_memory_memberships(static_cast<int>(replicas.size()));
  std::mutex mutex;  // guards `first`
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < replicas.size(); ++worker) {
    threads.emplace_back([&, worker] {
      const auto lose = [&] {
        cluster::testing::lose(*memberships[worker], static_cast<int>(worker), "its thread threw");
      };
      try {
        MultiWorkerMirroredOptions options = worker_cpus(replicas[worker], seed);
        const auto timeout = options.communication.timeout;
        options.communication = communication;
        options.communication.timeout = timeout;
        options.logical_replicas = logical_replicas;
        options.audit_every = audit_every;
        MultiWorkerMirroredStrategy strategy(memberships[worker], options);
        try {
          work(strategy);
        } catch (...) {
          // Like a process that dies: lost before the strategy's destructor leaves the cluster.
          {
            const std::lock_guard lock(mutex);
            if (!first) first = std::current_exception();
          }
          lose();
          throw;
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        lose();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace brigade::distribute
