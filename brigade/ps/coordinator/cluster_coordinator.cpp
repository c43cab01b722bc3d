#include "brigade/ps/coordinator/cluster_coordinator.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <thread>
#include <utility>

#include "brigade/base/clock.h"
#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/coordinator/coordinator_cluster.h"
#include "brigade/ps/coordinator/coordinator_core.h"
#include "brigade/ps/coordinator/coordinator_messages.h"
#include "brigade/ps/coordinator/remote_coordinator.h"
#include "brigade/ps/service_messages.h"

namespace brigade::ps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestTick{1};
// So that a lease that ends in this moment does not keep a core busy.
constexpr std::chrono::milliseconds kShortestTick{10};
constexpr std::chrono::seconds kTimeToLeave{15};
// Whether workers are awaited depends on time, too.
constexpr std::chrono::milliseconds kCheckWorkers{100};
constexpr std::chrono::seconds kReportIdleJob{10};
// A wait without a timeout; sums with times must not overflow.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

/// Throws kInvalidArgument if no message can have this function.
void check_sendable(const ScheduledFunction& function, std::size_t max_message_bytes) {
  const TakeReply reply{.work = FunctionWork{.coordinator = std::string(64, '0'),
                                             .id = std::numeric_limits<std::int64_t>::max(),
                                             .function = function.function,
                                             .arguments = function.arguments,
                                             .per_worker = function.per_worker}};
  const std::size_t bytes = encode_message(to_message(reply)).size();
  check_argument(bytes <= max_message_bytes, "The arguments of function ",
                 base::quoted(function.function), " are a message of ", bytes, " bytes, and up to ",
                 max_message_bytes, " are allowed (max_message_bytes).");
}

}  // namespace

struct PerWorkerValues::Creation {
  PerWorkerCreation creation;
  const void* owner = nullptr;  // the coordinator, to be compared only
};

class ClusterCoordinator::Impl {
 public:
  Impl(ParameterServerStrategy* strategy, const cluster::ClusterConfig& cluster,
       const FunctionTable& functions, ClusterCoordinatorOptions options)
      : options_(std::move(options)),
        strategy_(strategy),
        functions_(functions),
        name_(cluster::to_string(cluster.task)),
        workers_(coordinated_workers(cluster)),
        core_(core_options(), clock_),
        listener_(core_, {.address = coordinator_address(cluster),
                          .key = options_.key,
                          .workers = static_cast<int>(workers_.size()),
                          .max_message_bytes = options_.max_message_bytes,
                          .max_buffered_bytes = options_.max_buffered_bytes}) {
    base::log_info("Coordinator ", name_, " listens at ", listener_.address(), ".");
    ticker_ = std::jthread([this] { watch(); });
    cancellation_ =
        options_.cancel.on_cancel([this] { core_.cancel("the coordinator was cancelled"); });
  }
  ~Impl() {
    if (std::uncaught_exceptions() == exceptions_) {
      core_.end();
      await_workers();
    }
    core_.close();
    {
      const concurrency::MutexLock lock(mutex_);
      is_ended_ = true;
      changed_.notify_all();
    }
    ticker_.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  RemoteValue schedule(ScheduledFunction function) {
    functions_.check_function(function.function);
    check_sendable(function, options_.max_message_bytes);
    if (strategy_ != nullptr) strategy_->start_job();
    return core_.schedule(std::move(function), deadline());
  }
  void join() { core_.join_functions(deadline()); }
  FunctionData fetch(const RemoteValue& value) const { return value.get(options_.timeout); }

  const FunctionTable& functions() const { return functions_; }
  CoordinatorCore& core() { return core_; }
  std::string address() const { return listener_.address(); }

 private:
  CoordinatorCoreOptions core_options() {
    return {.workers = workers_,
            .lease = options_.lease,
            .queue = {.capacity = options_.queue_capacity, .max_losses = options_.max_losses},
            .on_change =
                [this](TaskChange change, const cluster::Task& worker, std::int64_t incarnation) {
                  log_task_change(name_, change, worker, incarnation, options_.lease,
                                  "A function that it ran is run again.");
                  const concurrency::MutexLock lock(mutex_);
                  changed_.notify_all();
                },
            .check_complete =
                [this](const ScheduledFunction& function) {
                  check_sendable(function, options_.max_message_bytes);
                }};
  }

  Clock::time_point deadline() const {
    return Clock::now() + std::min(options_.timeout.value_or(kForever), kForever);
  }

  /// Until all have left that may come.
  void await_workers() {
    const Clock::time_point end = Clock::now() + kTimeToLeave;
    const auto latecomers = clock_.now() + options_.wait_for_latecomers;
    const concurrency::MutexLock lock(mutex_);
    while (are_awaited(latecomers) && Clock::now() < end)
      changed_.wait_until(mutex_, std::min(end, Clock::now() + kCheckWorkers));
  }
  bool are_awaited(Clock::time_point latecomers) const {
    return options_.cancel.is_cancelled() ? core_.num_present() > 0
                                          : core_.expects_workers(latecomers);
  }

  Clock::time_point next_tick() const {
    const Clock::time_point now = clock_.now();
    const Clock::time_point latest = now + kLongestTick;
    return std::clamp(core_.next_expiry().value_or(latest), now + kShortestTick, latest);
  }

  /// The ticker's thread: ends leases.
  void watch() {
    Clock::time_point report = Clock::now() + kReportIdleJob;
    while (true) {
      core_.tick();
      if (core_.num_present() > 0 || core_.is_idle()) {
        report = Clock::now() + kReportIdleJob;
      } else if (Clock::now() >= report) {
        base::log_warning(
            "Functions wait, and none of the workers is there: ", base::join(workers_, ", "), ".");
        report = Clock::now() + kReportIdleJob;
      }
      const Clock::time_point next = next_tick();
      const concurrency::MutexLock lock(mutex_);
      while (!is_ended_ && clock_.now() < next) changed_.wait_until(mutex_, next);
      if (is_ended_) return;
    }
  }

  const ClusterCoordinatorOptions options_;
  const int exceptions_ = std::uncaught_exceptions();
  ParameterServerStrategy* const strategy_;  // may be null
  const FunctionTable& functions_;
  const std::string name_;
  const std::vector<cluster::Task> workers_;
  const base::SystemClock clock_;
  // Taken before the core's: `await_workers`. Never by a thread that holds the core's.
  concurrency::Mutex mutex_;
  concurrency::Condition changed_;  // memberships, or is_ended_
  bool is_ended_ BRIGADE_GUARDED_BY(mutex_) = false;
  CoordinatorCore core_;
  CoordinatorListener listener_;                  // calls core_
  std::jthread ticker_;                           // runs watch()
  concurrency::CancelRegistration cancellation_;  // calls core_
};

ClusterCoordinator::ClusterCoordinator(ParameterServerStrategy& strategy,
                                       const FunctionTable& functions,
                                       ClusterCoordinatorOptions options) {
  check_argument(strategy.chief_role() == ChiefRole::kCoordinates,
                 "A ClusterCoordinator is for a strategy whose chief does not train: "
                 "ParameterServerOptions{.chief = ChiefRole::kCoordinates}, in all tasks.");
  check_is_coordinator(strategy.cluster());
  impl_ = std::make_unique<Impl>(&strategy, strategy.cluster(), functions, std::move(options));
}

ClusterCoordinator::ClusterCoordinator(const cluster::ClusterConfig& cluster,
                                       const FunctionTable& functions,
                                       ClusterCoordinatorOptions options) {
  check_is_coordinator(cluster);
  impl_ = std::make_unique<Impl>(nullptr, cluster, functions, std::move(options));
}

ClusterCoordinator::~ClusterCoordinator() = default;

RemoteValue ClusterCoordinator::schedule(const std::string& function, const FunctionData& arguments,
                                         const std::vector<PerWorkerValues>& per_worker,
                                         const std::vector<RemoteInput>& inputs) {
  ScheduledFunction scheduled{
      .function = function,
      .arguments = sendable_copy(
          arguments, base::str_cat("the arguments of function ", base::quoted(function))),
      .inputs = inputs};
  for (const PerWorkerValues& each : per_worker) {
    check_argument(each.creation_->owner == impl_.get(), "Function ", base::quoted(function),
                   " is scheduled with per-worker values of another coordinator.");
    scheduled.per_worker.push_back(each.creation_->creation);
  }
  return impl_->schedule(std::move(scheduled));
}

void ClusterCoordinator::join() {
  impl_->join();
}
bool ClusterCoordinator::done() const {
  return impl_->core().is_idle();
}
FunctionData ClusterCoordinator::fetch(const RemoteValue& value) const {
  return impl_->fetch(value);
}
std::vector<FunctionData> ClusterCoordinator::fetch(const std::vector<RemoteValue>& values) const {
  std::vector<FunctionData> results;
  for (const RemoteValue& each : values) results.push_back(impl_->fetch(each));
  return results;
}

PerWorkerValues ClusterCoordinator::create_per_worker_dataset(const std::string& function,
                                                              const io::StateTree& arguments) {
  impl_->functions().check_dataset(function);
  return PerWorkerValues(std::make_shared<PerWorkerValues::Creation>(
      PerWorkerValues::Creation{.creation = {.id = impl_->core().new_value_id(),
                                             .function = function,
                                             .arguments = arguments},
                                .owner = impl_.get()}));
}

std::optional<std::size_t> ClusterCoordinator::wait_any(const std::vector<RemoteValue>& values,
                                                        std::chrono::milliseconds timeout) const {
  return impl_->core().wait_any(values, Clock::now() + std::min(timeout, kForever));
}
std::int64_t ClusterCoordinator::begin_phase() {
  return impl_->core().begin_phase();
}
void ClusterCoordinator::end_phase(const io::StateTree& outcome) {
  encode_state(outcome);  // throws if no worker could get it
  impl_->core().end_phase(outcome);
}
void ClusterCoordinator::drop_functions() {
  impl_->core().drop_functions("nobody wants its result");
}

std::string ClusterCoordinator::address() const {
  return impl_->address();
}
int ClusterCoordinator::num_workers() const {
  return impl_->core().num_present();
}

}  // namespace brigade::ps
