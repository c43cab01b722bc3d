#include "brigade/distribute/replica_runner.h"

#include <ATen/Parallel.h>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/machine/affinity.h"
#include "brigade/machine/topology.h"

namespace brigade::distribute {

ReplicaStream::ReplicaStream(const device::Device& device) : device_(device.torch_device) {
  if (!device_.is_cpu()) stream_ = device::make_stream(device);
}

void ReplicaStream::fork() {
  forked_.record(device_);
}

void ReplicaStream::join() const {
  finished_.wait(device_);
}

ReplicaStream::Scope::Scope(ReplicaStream& stream) : stream_(stream) {
  if (!stream.stream_) return;
  current_.emplace(*stream.stream_);
  stream.forked_.wait(stream.device_);
}

ReplicaStream::Scope::~Scope() {
  if (stream_.stream_) stream_.finished_.record(stream_.device_);
}

namespace {

/// Sets the number of intra-op threads of this thread, and restores it in the destructor.
class IntraOpThreads {
 public:
  explicit IntraOpThreads(int threads) : before_(at::get_num_threads()) {
    if (before_ != threads) at::set_num_threads(threads);
  }
  ~IntraOpThreads() {
    if (at::get_num_threads() != before_) at::set_num_threads(before_);
  }
  IntraOpThreads(const IntraOpThreads&) = delete;
  IntraOpThreads& operator=(const IntraOpThreads&) = delete;

 private:
  const int before_;
};

}  // namespace

std::chrono::microseconds spin_duration(const std::vector<device::Device>& devices) {
  constexpr std::chrono::microseconds kOwnCore{200};
  int threads = 0;
  for (const device::Device& device : devices) threads += device.is_cpu() ? device.threads : 1;
  return threads <= device::discover_hardware().topology.usable_cores()
             ? kOwnCore
             : std::chrono::microseconds(0);
}

std::unique_ptr<ReplicaRunner> make_thread_runner(const std::vector<device::Device>& devices,
                                                  const ReplicaRunnerOptions& options) {
  return std::make_unique<ThreadRunner>(devices, options);
}

ThreadRunner::ThreadRunner(std::vector<device::Device> devices, ReplicaRunnerOptions options)
    : devices_(std::move(devices)), options_(options) {
  check_argument(!devices_.empty(), "A strategy needs at least one device.");
  busy_ = std::make_unique<std::atomic<bool>[]>(devices_.size());
  const int callers_threads = at::get_num_threads();
  for (int replica = 1; replica < replicas(); ++replica) {
    workers_->threads.emplace_back([this, replica] { serve(replica); });
  }
  if (workers_->threads.empty()) return;
  // A worker that sets its number of threads also sets the default of threads started later:
  // restore the caller's number after all workers have set theirs.
  workers_->finished.wait_for(workers_->threads.size(), options_.spin, std::chrono::minutes(1));
  at::set_num_threads(callers_threads);
}

ThreadRunner::~ThreadRunner() {
  if (fork_.is_in_child()) {
    // To destroy a condition variable is to wait for the threads that wait for it.
    static_cast<void>(workers_.release());
    return;
  }
  stop_.store(true, std::memory_order_release);
  workers_->started.raise();
  for (std::thread& worker : workers_->threads) worker.join();
}

void ThreadRunner::run(const std::function<void(int)>& body) {
  if (options_.slots) options_.slots->start();  // first: it may throw
  body_ = &body;
  for (int replica = 1; replica < replicas(); ++replica)
    busy_[replica].store(true, std::memory_order_relaxed);
  ++runs_;
  if (!workers_->threads.empty()) workers_->started.raise();
  run_on_caller();
  wait_for_workers();
  body_ = nullptr;
}

void ThreadRunner::run_on_caller() {
  // Not pinned: the caller decides where its thread runs, and pinning and unpinning it would cost
  // 60 us per step. The other replicas are pinned to other cores, so one is free for it.
  const IntraOpThreads threads(devices_.front().threads);
  run_in_slot(0);
}

void ThreadRunner::run_in_slot(int replica) {
  const concurrency::ExecutionSlots::Hold hold(options_.slots.get(), replica);
  (*body_)(replica);
}

void ThreadRunner::serve(int replica) {
  const device::Device& device = devices_[replica];
  // Pinned before the first tensor operation: the helper threads of libgomp inherit the mask of the
  // first.
  std::optional<machine::AffinityScope> pinned;
  if (!device.cores.empty()) pinned.emplace(device.cores);
  // A thread's first call of get_num_threads sets its number to the default, which the caller may
  // be changing: call it before setting the number.
  at::get_num_threads();
  at::set_num_threads(device.threads);
  workers_->finished.raise();
  for (std::uint64_t next = 1;; ++next) {
    while (!workers_->started.wait_for(next, options_.spin, std::chrono::hours(1))) {
    }
    if (stop_.load(std::memory_order_acquire)) return;
    run_in_slot(replica);
    busy_[replica].store(false, std::memory_order_relaxed);
    workers_->finished.raise();
  }
}

void ThreadRunner::wait_for_workers() {
  if (workers_->threads.empty()) return;
  const std::uint64_t target = (runs_ + 1) * workers_->threads.size();
  while (!workers_->finished.wait_for(target, options_.spin, options_.stall_warning)) {
    std::vector<int> still;
    for (int replica = 1; replica < replicas(); ++replica) {
      if (busy_[replica].load(std::memory_order_relaxed)) still.push_back(replica);
    }
    base::log_warning("The step is waiting for replica ", base::join(still, ", "),
                      " for more than ", options_.stall_warning.count(),
                      " ms; the others have finished.");
  }
}

}  // namespace brigade::distribute
