#include "brigade/ps/coordinator/coordinator_session.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/ps/client/repeated_call.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {
namespace {

using std::chrono::milliseconds;

// Short, so that a worker that is cancelled ends soon.
constexpr milliseconds kTakeWait{1000};

std::uint64_t bytes_of_report(const FunctionReport& report) {
  std::uint64_t bytes = 0;
  for (const checkpoint::NamedTensor& each : report.result.tensors) bytes += each.tensor.nbytes();
  return bytes;
}

}  // namespace

CoordinatorSession::CoordinatorSession(std::unique_ptr<CoordinatorService> service,
                                       CoordinatorSessionOptions options)
    : service_(std::move(service)), options_(std::move(options)) {
  for (const milliseconds time : {options_.coordinator_timeout, options_.attempt_timeout})
    check_argument(time.count() > 0, "A timeout of a coordinator's worker is ", time.count(),
                   " ms; it must be positive.");
}

std::string CoordinatorSession::name() const {
  const std::string address = service_->name();
  return base::str_cat("coordinator",
                       address.empty() ? std::string() : base::str_cat(" (", address, ")"));
}

void CoordinatorSession::join() {
  repeat([](const std::string&, Time) {}, options_.coordinator_timeout);
}

milliseconds CoordinatorSession::lease() const {
  const concurrency::MutexLock lock(mutex_);
  return grant_.lease;
}

std::string CoordinatorSession::coordinator() const {
  const concurrency::MutexLock lock(mutex_);
  return grant_.coordinator;
}

TakeReply CoordinatorSession::take(std::int64_t phase, milliseconds coordinator_timeout) {
  TakeReply reply;
  const auto attempt = [&](const std::string& token, Time deadline) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    reply = service_->take(
        token, {.wait = std::clamp(left / 2, milliseconds(0), kTakeWait), .phase = phase},
        deadline);
  };
  repeat(attempt, coordinator_timeout);
  return reply;
}

void CoordinatorSession::finish(const FunctionReport& report) {
  repeat(
      [&](const std::string& token, Time deadline) { service_->finish(token, report, deadline); },
      options_.coordinator_timeout, bytes_of_report(report));
}

void CoordinatorSession::repeat(const Attempt& attempt, milliseconds coordinator_timeout,
                                std::uint64_t bytes) {
  repeat_call({.callee = name(),
               .caller = cluster::to_string(options_.task),
               .end = std::chrono::steady_clock::now() + coordinator_timeout + transfer_time(bytes),
               .attempt_timeout = options_.attempt_timeout + transfer_time(bytes),
               .cancel = options_.cancel},
              [&](Time deadline) { attempt_once(attempt, deadline); });
}

void CoordinatorSession::attempt_once(const Attempt& attempt, Time deadline) {
  const std::string token = member_token(deadline);
  try {
    attempt(token, deadline);
  } catch (const NotMemberError&) {
    forget(token);
    throw;
  }
}

std::string CoordinatorSession::member_token(Time deadline) {
  const concurrency::MutexLock joining(joins_);
  WorkerJoin request{.task = options_.task};
  {
    const concurrency::MutexLock lock(mutex_);
    if (!grant_.token.empty()) return grant_.token;
    request.incarnation = grant_.incarnation;
    request.coordinator = grant_.coordinator;
  }
  WorkerGrant grant = service_->join(request, deadline);
  const concurrency::MutexLock lock(mutex_);
  grant_ = std::move(grant);
  return grant_.token;
}

void CoordinatorSession::forget(const std::string& token) {
  const concurrency::MutexLock lock(mutex_);
  if (grant_.token == token) grant_.token.clear();
}

std::optional<WorkerStatus> CoordinatorSession::renew(std::int64_t running, Time deadline) {
  {
    const concurrency::MutexLock lock(mutex_);
    if (grant_.incarnation == 0) return std::nullopt;
  }
  std::optional<WorkerStatus> status;
  const auto renew_once = [&](const std::string& token, Time end) {
    status = service_->renew(token, running, end);
  };
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      attempt_once(renew_once, deadline);
      return status;
    } catch (const NotMemberError&) {
      // Joins, and asks again.
    } catch (const Error& error) {
      if (!may_call_again(error)) throw;
      return std::nullopt;
    }
  }
  return std::nullopt;
}

void CoordinatorSession::leave(Time deadline) noexcept {
  try {
    std::string token;
    {
      const concurrency::MutexLock lock(mutex_);
      token = grant_.token;
    }
    if (!token.empty()) service_->leave(token, deadline);
  } catch (const std::exception&) {
    // Then its lease runs out.
  }
}

}  // namespace brigade::ps
