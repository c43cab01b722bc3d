#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brigade/cluster/task.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/client/lease_renewal.h"
#include "brigade/ps/client/server_session.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/server/server_threads.h"

namespace brigade::ps {

struct JobMembershipOptions {
  /// As in ServerSessionOptions.
  std::chrono::milliseconds server_timeout = std::chrono::minutes(5);
  std::chrono::milliseconds attempt_timeout = std::chrono::seconds(30);
  /// Ends all waits.
  concurrency::CancelToken cancel = {};
};

/// A task's membership of a job: a session with each of its servers, whose leases it renews, and
/// whether a later incarnation has replaced the task.
///
/// Thread-safety: one thread at a time, except `stop`, `record_replacement` and
/// `throw_if_replaced`, which any thread may call. Owns a thread for each server that renews its
/// lease, and one for each server but the first that makes its calls; those of the first are made
/// by the caller's.
class JobMembership {
 public:
  /// Joins all servers, `services[0]` first, whose incarnation counts.
  JobMembership(const cluster::Task& task, std::vector<std::unique_ptr<ParameterService>> services,
                const JobMembershipOptions& options);
  /// The leases run out, unless `leave` was called.
  ~JobMembership();
  JobMembership(const JobMembership&) = delete;
  JobMembership& operator=(const JobMembership&) = delete;

  int num_servers() const { return static_cast<int>(sessions_.size()); }
  std::int64_t incarnation() const { return incarnation_; }
  ServerSession& session(int server) const { return *sessions_[static_cast<std::size_t>(server)]; }
  /// "parameter server 1 (host:port)", of all.
  std::vector<std::string> server_names() const;

  /// `work(server)` for all servers at the same time. Of the errors of several the first, by index,
  /// is thrown, after all have ended; ReplacedError is kept.
  void for_each_server(const std::function<void(int server)>& work);

  /// Cancelled by the user, or when the task was replaced.
  const concurrency::CancelToken& stop() const { return stop_.token(); }
  /// Ends all waits of a task that was replaced: `error` is a ReplacedError.
  void record_replacement(const std::exception_ptr& error) BRIGADE_EXCLUDES(mutex_);
  void throw_if_replaced() const BRIGADE_EXCLUDES(mutex_);

  /// Leaves all servers, as finished; those that do not answer by `end` see the lease run out.
  void leave(ParameterService::Time end);

 private:
  void start_renewals();
  void end_renewals();
  std::chrono::milliseconds renew_lease(int server);
  std::chrono::milliseconds renewal_interval(int server) const;

  const concurrency::LinkedToken stop_;
  std::vector<std::unique_ptr<ServerSession>> sessions_;
  ServerThreads threads_;
  std::int64_t incarnation_ = 0;

  mutable concurrency::Mutex mutex_;
  std::exception_ptr replaced_ BRIGADE_GUARDED_BY(mutex_);

  const concurrency::LinkedToken renewals_end_;
  // [server]: a server that does not answer must not cost the others their leases.
  std::vector<std::unique_ptr<LeaseRenewal>> lease_renewals_;
  // Last: the services must exist while it may run.
  concurrency::CancelRegistration close_on_stop_;
};

}  // namespace brigade::ps
