#include "brigade/ps/coordinator/coordinated_worker.h"

#include <algorithm>
#include <any>
#include <exception>
#include <map>
#include <string>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/client/lease_renewal.h"
#include "brigade/ps/coordinator/coordinator_cluster.h"
#include "brigade/ps/coordinator/coordinator_session.h"
#include "brigade/ps/coordinator/remote_coordinator.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWorkerLeaveTime{1000};
// For the last outcomes of a coordinator that has ended: it may be there still.
constexpr milliseconds kLastAnswerTime{3000};
constexpr milliseconds kShortestRenewal{1};
// A renewal also says that the function is unwanted or the coordinator ends, which waits 15 s.
constexpr milliseconds kLongestRenewal{3000};

}  // namespace

class CoordinatedWorker::Impl {
 public:
  Impl(const cluster::ClusterConfig& cluster, const FunctionTable& functions,
       std::unique_ptr<CoordinatorService> coordinator, const CoordinatedWorkerOptions& options)
      : functions_(functions),
        stop_(options.cancel),
        context_(context_of_worker(cluster, stop_.token())),
        session_(std::move(coordinator), {.task = cluster.task,
                                          .coordinator_timeout = options.coordinator_timeout,
                                          .attempt_timeout = options.attempt_timeout,
                                          .cancel = stop_.token()}) {}

  ~Impl() {
    if (renewal_) end();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void join();
  std::optional<PhaseEnd> serve_phase(std::int64_t phase);

 private:
  /// One run of a function, for the thread that renews the lease.
  struct Running {
    std::int64_t id = 0;
    concurrency::CancelToken cancel;
  };

  void begin();
  /// Until there is no further function of this phase, or at all.
  TakeReply serve(std::int64_t phase);
  TakeReply take(std::int64_t phase);
  /// As `serve`; joins first if this is no member, and ends after an error.
  TakeReply begin_and_serve(std::int64_t phase);
  void end();
  milliseconds renewal_interval() const;
  milliseconds renew_lease();
  void record_replacement(const std::exception_ptr& error);
  void throw_if_stopped() const;
  bool coordinator_has_ended() const;

  FunctionReport run(const FunctionWork& work, const concurrency::CancelToken& cancel);
  void report(const FunctionReport& report);
  FunctionData call(const FunctionWork& work, const concurrency::CancelToken& cancel);
  const std::any& value_of(const PerWorkerCreation& creation,
                           const concurrency::CancelToken& cancel);

  const FunctionTable& functions_;
  const concurrency::LinkedToken stop_;  // cancelled by the user, or when this task was replaced
  const WorkerContext context_;
  CoordinatorSession session_;
  std::optional<LeaseRenewal> renewal_;  // while this is a member

  // Of the thread that runs functions.
  std::string phases_;                       // the coordinator of the phases that have ended
  bool is_over_ = false;                     // the coordinator had no further phase
  std::shared_ptr<void> state_;              // null until the first function
  std::string coordinator_;                  // whose values these are
  std::map<std::int64_t, std::any> values_;  // by id; gone before state_

  mutable concurrency::Mutex mutex_;
  std::optional<Running> running_ BRIGADE_GUARDED_BY(mutex_);
  std::exception_ptr replaced_ BRIGADE_GUARDED_BY(mutex_);
  bool has_ended_ BRIGADE_GUARDED_BY(mutex_) = false;  // the coordinator, as a renewal said
};

void CoordinatedWorker::Impl::join() {
  begin_and_serve(0);
  end();
}

std::optional<PhaseEnd> CoordinatedWorker::Impl::serve_phase(std::int64_t phase) {
  check_argument(phase >= 1, "A phase has the number ", phase, ", and 1 is the first.");
  if (is_over_) return std::nullopt;
  TakeReply reply = begin_and_serve(phase);
  if (!reply.phase_end) {
    end();
    is_over_ = true;
    return std::nullopt;
  }
  phases_ = session_.coordinator();
  return std::move(reply.phase_end);
}

TakeReply CoordinatedWorker::Impl::begin_and_serve(std::int64_t phase) {
  try {
    if (!renewal_) begin();
    return serve(phase);
  } catch (...) {
    end();
    throw_if_stopped();  // another error may be a consequence
    throw;
  }
}

void CoordinatedWorker::Impl::begin() {
  session_.join();
  base::log_info(context_.cluster.task, " runs functions of the ", session_.name(), ".");
  renewal_.emplace(
      renew_lease(), [this] { return renew_lease(); }, stop_.token());
}

TakeReply CoordinatedWorker::Impl::serve(std::int64_t phase) {
  while (true) {
    throw_if_stopped();
    TakeReply reply = take(phase);
    if (!phases_.empty() && session_.coordinator() != phases_)
      throw Error(ErrorCode::kAborted, "The ", session_.name(),
                  " was started again, and repeats what ", context_.cluster.task,
                  " has done already: start this process again, too.");
    if (reply.is_done || reply.phase_end) return reply;
    if (!reply.work) continue;
    const concurrency::LinkedToken cancel(stop_.token());
    {
      const concurrency::MutexLock lock(mutex_);
      running_ = Running{.id = reply.work->id, .cancel = cancel.token()};
    }
    const FunctionReport done = run(*reply.work, cancel.token());
    {
      const concurrency::MutexLock lock(mutex_);
      running_.reset();
    }
    throw_if_stopped();  // then it may have ended because of that, and is run by another worker
    if (coordinator_has_ended()) return {.is_done = true};  // there may be nothing to report to
    report(done);
  }
}

/// A coordinator that has said that it ends is not waited for as one that may be started again.
TakeReply CoordinatedWorker::Impl::take(std::int64_t phase) {
  if (!coordinator_has_ended()) return session_.take(phase);
  try {
    return session_.take(phase, kLastAnswerTime);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    return {.is_done = true};
  }
}

/// The membership ends first, so that a function that this worker has not ended is run again soon.
void CoordinatedWorker::Impl::end() {
  renewal_.reset();  // else it would join again
  session_.leave(std::chrono::steady_clock::now() + kWorkerLeaveTime);
  values_.clear();
  state_.reset();
}

milliseconds CoordinatedWorker::Impl::renewal_interval() const {
  return std::clamp(session_.lease() / 3, kShortestRenewal, kLongestRenewal);
}

milliseconds CoordinatedWorker::Impl::renew_lease() {
  const milliseconds interval = renewal_interval();
  std::optional<Running> asked;
  {
    const concurrency::MutexLock lock(mutex_);
    asked = running_;
  }
  try {
    const auto status =
        session_.renew(asked ? asked->id : 0, std::chrono::steady_clock::now() + interval);
    if (!status) return interval;
    if (status->is_done) {
      const concurrency::MutexLock lock(mutex_);
      has_ended_ = true;
    }
    // The run that was asked about: meanwhile this worker may have been given the function again.
    if (asked && (status->is_done || !status->is_wanted)) asked->cancel.cancel();
  } catch (const ReplacedError&) {
    record_replacement(std::current_exception());
  } catch (const std::exception&) {
    // The next call of the thread that runs functions has the same error, and throws it.
  }
  return interval;
}

void CoordinatedWorker::Impl::record_replacement(const std::exception_ptr& error) {
  {
    const concurrency::MutexLock lock(mutex_);
    if (!replaced_) replaced_ = error;
  }
  stop_.cancel();
}

void CoordinatedWorker::Impl::throw_if_stopped() const {
  {
    const concurrency::MutexLock lock(mutex_);
    if (replaced_) std::rethrow_exception(replaced_);
  }
  stop_.token().throw_if_cancelled("running functions of a coordinator");
}

bool CoordinatedWorker::Impl::coordinator_has_ended() const {
  const concurrency::MutexLock lock(mutex_);
  return has_ended_;
}

FunctionReport CoordinatedWorker::Impl::run(const FunctionWork& work,
                                            const concurrency::CancelToken& cancel) {
  FunctionReport report{.coordinator = work.coordinator, .id = work.id};
  try {
    report.result = call(work, cancel);
  } catch (const ReplacedError&) {
    throw;
  } catch (const Error& error) {
    report.error = {.code = error.code(), .message = base::printable(error.what())};
  } catch (const std::exception& error) {
    report.error = {.code = ErrorCode::kAborted,
                    .message = base::printable(base::without_stack_trace(error.what()))};
  } catch (...) {
    report.error = {.code = ErrorCode::kAborted,
                    .message = "it threw an object that is no std::exception."};
  }
  return report;
}

/// A result that cannot be sent, or that the coordinator refuses because it is too large for it, is
/// the function's error.
void CoordinatedWorker::Impl::report(const FunctionReport& report) {
  try {
    session_.finish(report);
  } catch (const Error& error) {
    const bool is_refused = error.code() == ErrorCode::kInvalidArgument ||
                            error.code() == ErrorCode::kResourceExhausted;
    if (report.error || !is_refused) throw;
    session_.finish({.coordinator = report.coordinator,
                     .id = report.id,
                     .error = FunctionError{.code = error.code(), .message = error.what()}});
  }
}

FunctionData CoordinatedWorker::Impl::call(const FunctionWork& work,
                                           const concurrency::CancelToken& cancel) {
  if (!state_) state_ = functions_.set_up(context_);
  if (work.coordinator != coordinator_) {
    values_.clear();
    coordinator_ = work.coordinator;
  }
  FunctionCall call{.worker = context_, .arguments = work.arguments, .cancel = cancel};
  for (const PerWorkerCreation& each : work.per_worker)
    call.per_worker_values.push_back(&value_of(each, cancel));
  return sendable_copy(functions_.call(work.function, state_.get(), call), "its result");
}

const std::any& CoordinatedWorker::Impl::value_of(const PerWorkerCreation& creation,
                                                  const concurrency::CancelToken& cancel) {
  const auto found = values_.find(creation.id);
  if (found != values_.end()) return found->second;
  const FunctionCall call{
      .worker = context_, .arguments = {.values = creation.arguments}, .cancel = cancel};
  return values_
      .emplace(creation.id, functions_.make_dataset(creation.function, state_.get(), call))
      .first->second;
}

CoordinatedWorker::CoordinatedWorker(const cluster::ClusterConfig& cluster,
                                     const FunctionTable& functions,
                                     CoordinatedWorkerOptions options)
    : CoordinatedWorker(cluster, functions,
                        connect_to_coordinator(coordinator_address(cluster), options.key),
                        options) {}

CoordinatedWorker::CoordinatedWorker(const cluster::ClusterConfig& cluster,
                                     const FunctionTable& functions,
                                     std::unique_ptr<CoordinatorService> coordinator,
                                     CoordinatedWorkerOptions options)
    : impl_(std::make_unique<Impl>(cluster, functions, std::move(coordinator), options)) {}

CoordinatedWorker::~CoordinatedWorker() = default;

void CoordinatedWorker::join() {
  impl_->join();
}
std::optional<PhaseEnd> CoordinatedWorker::serve_phase(std::int64_t phase) {
  return impl_->serve_phase(phase);
}

}  // namespace brigade::ps
