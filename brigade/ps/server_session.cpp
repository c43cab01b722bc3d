#include "brigade/ps/server_session.h"

#include <algorithm>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::ps {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A thread that joins holds up the other one, which renews leases.
constexpr std::chrono::seconds kJoinTimeout{5};
constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::milliseconds kLongestPause{1000};

/// The first attempt after a failure is made without a pause: most often a connection was lost.
std::chrono::milliseconds longer(std::chrono::milliseconds pause) {
  return std::clamp(2 * pause, kFirstPause, kLongestPause);
}

std::string seconds_text(Clock::duration time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return base::str_cat(static_cast<double>(ms) / 1000, " s");
}

}  // namespace

std::chrono::milliseconds transfer_time(std::uint64_t bytes) {
  constexpr std::uint64_t kBytesPerMillisecond = 1000;
  return milliseconds(static_cast<std::int64_t>(bytes / kBytesPerMillisecond));
}

bool may_call_again(const Error& error) {
  return error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kDeadlineExceeded ||
         dynamic_cast<const ServerBusyError*>(&error) != nullptr;
}

ServerSession::ServerSession(std::unique_ptr<ParameterService> service,
                             ServerSessionOptions options)
    : service_(std::move(service)), options_(std::move(options)) {}

std::string ServerSession::name() const {
  const std::string address = service_->name();
  return base::str_cat("parameter server ", options_.server,
                       address.empty() ? std::string() : base::str_cat(" (", address, ")"));
}

std::int64_t ServerSession::join(std::int64_t incarnation) {
  {
    const concurrency::MutexLock lock(mutex_);
    incarnation_ = incarnation;
  }
  tell([](ParameterService&, const std::string&, Time) {});  // `repeat` joins
  const concurrency::MutexLock lock(mutex_);
  return incarnation_;
}

std::chrono::milliseconds ServerSession::lease() const {
  const concurrency::MutexLock lock(mutex_);
  return lease_;
}

void ServerSession::expect_variables() {
  const concurrency::MutexLock lock(mutex_);
  expects_variables_ = true;
}

void ServerSession::repeat(const Attempt& attempt, Time end, std::uint64_t bytes) {
  const Time begin = Clock::now();
  end += transfer_time(bytes);
  milliseconds allowed = options_.attempt_timeout + transfer_time(bytes);
  std::chrono::milliseconds pause{0};
  bool is_waiting = false;
  while (true) {
    options_.cancel.throw_if_cancelled(base::str_cat("a call of ", name()));
    const Time deadline = std::min(end, Clock::now() + allowed);
    std::string token, reason;
    try {
      token = member_token(deadline);
      attempt(*service_, token, deadline);
      if (is_waiting) base::log_info(base::str_cat("The ", name(), " is back."));
      return;
    } catch (const NotMemberError& error) {
      forget(token);
      reason = error.what();
    } catch (const Error& error) {
      if (!may_call_again(error)) throw;
      reason = error.what();
      // Its messages may be larger than is known, or the network slower.
      if (Clock::now() >= deadline) allowed *= 2;
    }
    if (options_.cancel.is_cancelled()) continue;
    if (pause.count() > 0 && !is_waiting) {
      is_waiting = true;
      base::log_warning(base::str_cat("Waiting for the ", name(), ", for ",
                                      seconds_text(end - begin), " at most: ", reason));
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    concurrency::interruptible_wait(std::min(pause, left), options_.cancel);
    pause = longer(pause);
    if (Clock::now() >= end && !options_.cancel.is_cancelled())
      throw Error(
          ErrorCode::kUnavailable,
          base::str_cat("The ", name(), " has not answered ", cluster::to_string(options_.task),
                        " for ", seconds_text(Clock::now() - begin),
                        ". Start it again, or allow it more time. The last reason: ", reason));
  }
}

std::string ServerSession::member_token(Time deadline) {
  const concurrency::MutexLock joining(joins_);
  JoinRequest request{.task = options_.task};
  {
    const concurrency::MutexLock lock(mutex_);
    if (!token_.empty()) return token_;
    request.incarnation = incarnation_;
  }
  deadline = std::min<Time>(deadline, Clock::now() + kJoinTimeout);
  Grant grant = service_->join(request, deadline);
  check_has_variables(grant.token, deadline);
  const concurrency::MutexLock lock(mutex_);
  token_ = std::move(grant.token);
  incarnation_ = grant.incarnation;
  lease_ = grant.lease;
  return token_;
}

void ServerSession::forget(const std::string& token) {
  const concurrency::MutexLock lock(mutex_);
  if (token_ == token) token_.clear();
}

void ServerSession::check_has_variables(const std::string& token, Time deadline) {
  {
    const concurrency::MutexLock lock(mutex_);
    if (!expects_variables_) return;
  }
  if (service_->renew(token, deadline).is_created) return;
  throw Error(ErrorCode::kDataLoss,
              base::str_cat("The ", name(),
                            " came back without its variables: its folder was lost. Give it the "
                            "folder, or empty the folders of all servers and start from a "
                            "checkpoint."));
}

ExchangeReply ServerSession::exchange(ExchangeRequest request, std::uint64_t reply_bytes) {
  if (unfinished_) send({.push = unfinished_, .decision = request.decision, .pull = {}}, 0);
  if (request.push && request.push->token && request.push->token == last_token_)
    request.push.reset();
  if (request.push) {
    request.push->number = next_push_;
    unfinished_ = request.push;
  }
  return send(request, reply_bytes);
}

ExchangeReply ServerSession::send(const ExchangeRequest& request, std::uint64_t reply_bytes) {
  std::uint64_t bytes = reply_bytes;
  if (request.push)
    for (const checkpoint::NamedTensor& each : request.push->gradients)
      bytes += each.tensor.nbytes();
  try {
    ExchangeReply reply =
        call([&](ParameterService& service, const std::string& token,
                 Time deadline) { return service.exchange(token, request, deadline); },
             bytes);
    if (request.push) acknowledge(reply);
    return reply;
  } catch (const PushRefusedError&) {
    unfinished_.reset();
    throw;
  } catch (...) {
    keep_unfinished_push();
    throw;
  }
}

void ServerSession::acknowledge(const ExchangeReply& reply) {
  using coordination::PushVerdict;
  if (reply.verdict == PushVerdict::kFenced)
    throw ReplacedError(base::str_cat("A later life of ", cluster::to_string(options_.task),
                                      " pushes to the ", name(), ": this one has to end."));
  if (reply.verdict == PushVerdict::kGap)
    throw Error(ErrorCode::kDataLoss,
                base::str_cat("The ", name(), " does not have the pushes of ",
                              cluster::to_string(options_.task), " before number ",
                              unfinished_->number, ", which it acknowledged: it lost updates."));
  if (!reply.verdict)
    throw Error(ErrorCode::kInternal,
                base::str_cat("The ", name(), " did not say what became of a push."));
  last_token_ = unfinished_->token;
  unfinished_.reset();
  ++next_push_;
}

/// The caller may write to its gradients again once a call has ended.
void ServerSession::keep_unfinished_push() {
  if (!unfinished_) return;
  for (checkpoint::NamedTensor& gradient : unfinished_->gradients)
    gradient.tensor = gradient.tensor.clone();
}

bool ServerSession::renew(Time deadline) {
  {
    const concurrency::MutexLock lock(mutex_);
    if (incarnation_ == 0) return false;
  }
  std::string token;
  try {
    token = member_token(deadline);
    service_->renew(token, deadline);
    return true;
  } catch (const NotMemberError&) {
    forget(token);
  } catch (const Error& error) {
    if (!may_call_again(error)) throw;
    return false;
  }
  try {
    member_token(deadline);
    return true;
  } catch (const Error& error) {
    if (!may_call_again(error)) throw;
    return false;
  }
}

void ServerSession::leave(Time deadline) noexcept {
  try {
    repeat([](ParameterService& service, const std::string& token,
              Time end) { service.leave(token, end); },
           deadline);
  } catch (const std::exception&) {
    // Then its lease runs out.
  }
}

}  // namespace brigade::ps
