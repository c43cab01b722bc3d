#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "brigade/base/fork_detector.h"
#include "brigade/concurrency/execution_slots.h"
#include "brigade/concurrency/signal.h"
#include "brigade/device/device.h"
#include "brigade/device/stream.h"

namespace brigade::distribute {

/// The stream on which a replica on a GPU queues its work. It is ordered with the caller's stream
/// of that card: work that the caller queued before a run (such as copies of batches) is done
/// before the replica's work, and the replica's work is done before work that the caller queues
/// next. So tensors may be passed between the two without `record_stream`. Does nothing on CPU.
///
/// Thread-safety: `fork` and `join` by the caller, before and after the run; `Scope` by the
/// replica's thread within it.
class ReplicaStream {
 public:
  explicit ReplicaStream(const device::Device& device);

  void fork();
  void join() const;
  /// Unset on CPU.
  const std::optional<c10::Stream>& stream() const { return stream_; }

  /// Makes the stream current in the replica's thread during its lifetime.
  class Scope {
   public:
    explicit Scope(ReplicaStream& stream);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ReplicaStream& stream_;
    std::optional<device::StreamScope> current_;
  };

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;  // on a GPU
  device::StreamFence forked_;
  device::StreamFence finished_;
};

struct ReplicaRunnerOptions {
  /// How long an idle replica thread polls for the next step before it sleeps; 0 where replicas
  /// outnumber cores.
  std::chrono::microseconds spin{200};
  /// While a step takes longer than this, a warning in the log names the replicas that still run.
  std::chrono::milliseconds stall_warning = std::chrono::minutes(1);
  /// Which replicas compute one after another, because they have one device; null: all replicas
  /// compute at the same time. A runner begins each run with `ExecutionSlots::start`, and each
  /// replica holds its slot while it runs (`ExecutionSlots::Hold`).
  std::shared_ptr<concurrency::ExecutionSlots> slots = nullptr;
};

/// How long replicas on these devices spin while they wait for one another, before they sleep: 200
/// us if each has its own core; 0 if they share cores, because a spinning replica would keep the
/// one that it waits for from running.
std::chrono::microseconds spin_duration(const std::vector<device::Device>& devices);

/// The part of a strategy that runs its replicas.
///
/// Thread-safety: `run` by one thread at a time.
class ReplicaRunner {
 public:
  virtual ~ReplicaRunner() = default;

  /// Calls `body(replica)` once in every replica, and returns when all have returned. Replica 0
  /// runs on the calling thread. All replicas run at the same time, because they wait for one
  /// another; of those that share an execution slot one computes at a time, and the others run
  /// while it waits. `body` must not throw.
  virtual void run(const std::function<void(int)>& body) = 0;
};

/// Runs each replica on a thread: replica 0 on the calling one, because a thread switch would cost
/// as much as a step of a small model; every other on its own, which lives as long as the runner.
/// During a run, each thread has its device's number of intra-op threads; the caller's number is
/// restored afterwards. The other threads are pinned to their devices' cores; the caller's thread
/// is not pinned.
class ThreadRunner final : public ReplicaRunner {
 public:
  /// Takes one device per replica; at least one.
  explicit ThreadRunner(std::vector<device::Device> devices, ReplicaRunnerOptions options = {});
  /// Joins the threads; in a child that was forked later, which has none, it leaves them alone.
  ~ThreadRunner() override;
  ThreadRunner(const ThreadRunner&) = delete;
  ThreadRunner& operator=(const ThreadRunner&) = delete;

  int replicas() const { return static_cast<int>(devices_.size()); }
  void run(const std::function<void(int)>& body) override;

 private:
  struct Workers {
    concurrency::Signal started;       // raised once per run
    concurrency::Signal finished;      // raised once per worker and run
    std::vector<std::thread> threads;  // of replicas 1 and up
  };
  void serve(int replica);
  void run_on_caller();
  void run_in_slot(int replica);
  void wait_for_workers();

  const std::vector<device::Device> devices_;
  const ReplicaRunnerOptions options_;
  const std::function<void(int)>* body_ = nullptr;  // written before started_ is raised, read after
  std::atomic<bool> stop_{false};
  std::uint64_t runs_ = 0;                     // the caller's thread only
  std::unique_ptr<std::atomic<bool>[]> busy_;  // [replica], to name the replicas that still run
  const base::ForkDetector fork_;
  std::unique_ptr<Workers> workers_ = std::make_unique<Workers>();
};

/// Makes the runner of replicas on these devices (`StrategyParts::runner`).
using ReplicaRunnerFactory = std::function<std::unique_ptr<ReplicaRunner>(
    const std::vector<device::Device>& devices, const ReplicaRunnerOptions& options)>;

/// Makes a ThreadRunner.
std::unique_ptr<ReplicaRunner> make_thread_runner(const std::vector<device::Device>& devices,
                                                  const ReplicaRunnerOptions& options);

}  // namespace brigade::distribute
