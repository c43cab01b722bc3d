#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "brigade/cluster/task.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/coordinator/coordinator_service.h"

namespace brigade::ps {

struct CoordinatorSessionOptions {
  cluster::Task task;  ///< who calls
  /// A call fails when the coordinator could not be reached for this long.
  std::chrono::milliseconds coordinator_timeout = std::chrono::minutes(5);
  /// A call that takes longer, beside a second for each megabyte of its messages, is made again,
  /// with twice the time.
  std::chrono::milliseconds attempt_timeout = std::chrono::seconds(10);
  /// Ends the pauses between attempts.
  concurrency::CancelToken cancel = {};
};

/// A worker's membership of its coordinator, and calls that are made again until they are answered.
///
/// Thread-safety: `renew`, `lease` and `name` from any thread; the others by one thread at a time.
class CoordinatorSession {
 public:
  using Time = CoordinatorService::Time;

  CoordinatorSession(std::unique_ptr<CoordinatorService> service,
                     CoordinatorSessionOptions options);

  /// "coordinator (host:port)".
  std::string name() const;
  /// Waits for the coordinator as the other calls do.
  void join() BRIGADE_EXCLUDES(joins_, mutex_);
  /// How long the membership lasts unless it is renewed; 0 before `join`.
  std::chrono::milliseconds lease() const BRIGADE_EXCLUDES(mutex_);

  /// The coordinator's life that this is a member of; empty before `join`.
  std::string coordinator() const BRIGADE_EXCLUDES(mutex_);

  /// As CoordinatorService's. They join first if this is no member. They throw what the service
  /// throws, but kUnavailable, naming the coordinator and the last reason, if it did not answer
  /// within the timeout; kCancelled.
  TakeReply take(std::int64_t phase = 0) { return take(phase, options_.coordinator_timeout); }
  /// With this time for the coordinator to answer.
  TakeReply take(std::int64_t phase, std::chrono::milliseconds coordinator_timeout);
  void finish(const FunctionReport& report);

  /// Renews the membership once, and joins again if it has ended. Nothing if the coordinator did
  /// not answer by `deadline`, and before `join`. Throws other errors.
  std::optional<WorkerStatus> renew(std::int64_t running, Time deadline)
      BRIGADE_EXCLUDES(joins_, mutex_);
  /// Leaves, if the coordinator answers by `deadline`; else the lease will run out.
  void leave(Time deadline) noexcept;

 private:
  using Attempt = std::function<void(const std::string& token, Time deadline)>;

  /// One call, made again until the coordinator's timeout, and the time for its bytes.
  void repeat(const Attempt& attempt, std::chrono::milliseconds coordinator_timeout,
              std::uint64_t bytes = 0);
  void attempt_once(const Attempt& attempt, Time deadline);
  /// The token of the membership; joins if there is none.
  std::string member_token(Time deadline) BRIGADE_EXCLUDES(joins_, mutex_);
  /// The coordinator does not know this token any longer.
  void forget(const std::string& token) BRIGADE_EXCLUDES(mutex_);

  const std::unique_ptr<CoordinatorService> service_;
  const CoordinatorSessionOptions options_;

  // Held while joining, so that two threads do not void each other's tokens.
  concurrency::Mutex joins_;
  mutable concurrency::Mutex mutex_;
  WorkerGrant grant_ BRIGADE_GUARDED_BY(mutex_);  // an empty token: no member
};

}  // namespace brigade::ps
