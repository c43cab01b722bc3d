#include "brigade/ps/client/job_membership.h"

#include <algorithm>
#include <utility>

namespace brigade::ps {
namespace {

// Long transfers hold up a renewal that shares their connection.
constexpr std::chrono::milliseconds kRenewalTime{2000};

}  // namespace

JobMembership::JobMembership(const cluster::Task& task,
                             std::vector<std::unique_ptr<ParameterService>> services,
                             const JobMembershipOptions& options)
    : stop_(options.cancel),
      threads_(static_cast<int>(services.size())),
      renewals_end_(stop_.token()) {
  for (std::size_t i = 0; i < services.size(); ++i)
    sessions_.push_back(std::make_unique<ServerSession>(
        std::move(services[i]), ServerSessionOptions{.task = task,
                                                     .server = static_cast<int>(i),
                                                     .server_timeout = options.server_timeout,
                                                     .attempt_timeout = options.attempt_timeout,
                                                     .cancel = stop_.token()}));
  close_on_stop_ = stop_.token().on_cancel([this] {
    for (const auto& each : sessions_) each->close();
  });
  incarnation_ = session(0).join(0);
  // Before the other joins: they wait for servers that start later.
  start_renewals();
  for_each_server([this](int server) {
    if (server > 0) session(server).join(incarnation_);
  });
}

JobMembership::~JobMembership() {
  end_renewals();
}

std::vector<std::string> JobMembership::server_names() const {
  std::vector<std::string> names;
  for (const auto& each : sessions_) names.push_back(each->name());
  return names;
}

void JobMembership::for_each_server(const std::function<void(int server)>& work) {
  threads_.run([&](int server) {
    try {
      work(server);
    } catch (const ReplacedError&) {
      record_replacement(std::current_exception());
      throw;
    }
  });
}

void JobMembership::start_renewals() {
  for (int server = 0; server < num_servers(); ++server)
    lease_renewals_.push_back(std::make_unique<LeaseRenewal>(
        renewal_interval(server), [this, server] { return renew_lease(server); },
        renewals_end_.token()));
}

void JobMembership::end_renewals() {
  renewals_end_.cancel();  // all, before the first is waited for
  lease_renewals_.clear();
}

/// That of the first server until the task has joined this one.
std::chrono::milliseconds JobMembership::renewal_interval(int server) const {
  const std::chrono::milliseconds own = session(server).lease();
  const std::chrono::milliseconds lease = own.count() > 0 ? own : session(0).lease();
  return std::max(lease / 4, std::chrono::milliseconds(1));
}

std::chrono::milliseconds JobMembership::renew_lease(int server) {
  try {
    session(server).renew(std::chrono::steady_clock::now() + kRenewalTime);
  } catch (const ReplacedError&) {
    record_replacement(std::current_exception());
  } catch (const std::exception&) {
    // The next call to this server has the same error, and throws it.
  }
  return renewal_interval(server);
}

void JobMembership::record_replacement(const std::exception_ptr& error) {
  {
    const concurrency::MutexLock lock(mutex_);
    if (!replaced_) replaced_ = error;
  }
  stop_.cancel();
}

void JobMembership::throw_if_replaced() const {
  const concurrency::MutexLock lock(mutex_);
  if (replaced_) std::rethrow_exception(replaced_);
}

void JobMembership::leave(ParameterService::Time end) {
  end_renewals();  // else they would join again
  threads_.run([&](int server) { session(server).leave(end); });
}

}  // namespace brigade::ps
