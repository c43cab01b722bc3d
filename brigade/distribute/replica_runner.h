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
  /// outnumber cores.
  std::chrono::microseconds spin{200};
  /// While a step takes longer than this, a warning in the log names the replicas that still run.
  std::chrono::milliseconds stall_warning = std::chrono::minutes(1);
};

/// Runs replicas: calls a function once for each replica, concurrently. Replica 0 runs on the
/// calling thread, because a thread switch would cost as much as a step of a small model. Every
/// other replica has its own thread, which lives as long as the runner. During a run, each thread
/// has its device's number of intra-op threads; the caller's number is restored afterwards. The
/// other threads are pinned to their devices' cores; the caller's thread is not pinned.
///
/// Thread-safety: `run` by one thread at a time.
class ReplicaRunner {
 public:
  /// Takes one device per replica; at least one.
  explicit ReplicaRunner(std::vector<device::Device> devices, ReplicaRunnerOptions options = {});
  /// Joins the threads.
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
  const std::function<void(int)>* body_ = nullptr;  // written before started_ is raised, read after
  std::atomic<bool> stop_{false};
  std::uint64_t runs_ = 0;                     // the caller's thread only
  concurrency::Signal started_;                // raised once per run
  concurrency::Signal finished_;               // raised once per worker and run
  std::unique_ptr<std::atomic<bool>[]> busy_;  // [replica], to name the replicas that still run
  std::vector<std::thread> workers_;           // of replicas 1 and up
};

}  // namespace brigade::distribute
