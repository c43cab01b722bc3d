#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "brigade/concurrency/signal.h"
#include "brigade/device/device.h"

namespace brigade::distribute {

struct ReplicaRunnerOptions {
  /// How long an idle replica thread polls for the next step before it sleeps; 0 where replicas
  /// exceed cores.
  std::chrono::microseconds spin{200};
  /// While a step takes longer than this, a warning in the log names the replicas that still run.
  std::chrono::milliseconds stall_warning = std::chrono::minutes(1);
};

/// Who runs: calls a function once for each replica, all at the same time. Replica 0 runs on the
/// calling thread, since handing it to another would cost a step of a small model as much as its
/// work; every other replica has a thread of its own, alive as long as the runner. While it runs, a
/// thread has its device's number of intra-op threads; the caller's own comes back afterwards. The
/// other threads keep to their devices' cores; the caller's runs where the system puts it.
///
/// Thread-safety: `run` by one thread at a time.
class ReplicaRunner {
 public:
  /// One device a replica, at least one.
  explicit ReplicaRunner(std::vector<device::Device> devices, ReplicaRunnerOptions options = {});
  /// Ends the threads.
  ~ReplicaRunner();
  ReplicaRunner(const ReplicaRunner&) = delete;
  ReplicaRunner& operator=(const ReplicaRunner&) = delete;

  int replicas() const { return static_cast<int>(devices_.size()); }
  const std::vector<device::Device>& devices() const { return devices_; }

  /// Calls `body(replica)` in every replica and returns when all have returned. `body` must not
  /// throw.
  void run(const std::function<void(int)>& body);

 private:
  void serve(int replica);
  void run_on_caller();
  void wait_for_workers();

  const std::vector<device::Device> devices_;
  const ReplicaRunnerOptions options_;
  const std::function<void(int)>* body_ = nullptr;  // written before started_ rises, read after
  std::atomic<bool> stop_{false};
  std::uint64_t runs_ = 0;                     // the caller's thread only
  concurrency::Signal started_;                // rises once a run
  concurrency::Signal finished_;               // rises once a worker and run
  std::unique_ptr<std::atomic<bool>[]> busy_;  // [replica], to name who still runs
  std::vector<std::thread> workers_;           // of replicas 1 and up
};

}  // namespace brigade::distribute
