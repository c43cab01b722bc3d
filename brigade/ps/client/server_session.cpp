#include "brigade/ps/client/server_session.h"

#include <algorithm>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::ps {
namespace {

using Clock = std::chrono::steady_clock;

// A thread that joins holds up the other one, which renews leases.
constexpr std::chrono::seconds kJoinTimeout{5};
// What was sent early for nothing is sent twice: rarely where it fails, as for a backward pass that
// is silent for longer than a server waits.
constexpr int kPushesWithoutEarly = 100;

std::uint64_t bytes_of(const Push& push) {
  std::uint64_t bytes = 0;
  for (const checkpoint::NamedTensor& each : push.gradients) bytes += each.tensor.nbytes();
  for (const RowGradient& each : push.rows) bytes += each.indices.nbytes() + each.values.nbytes();
  return bytes;
}

/// Autograd's, which in-place operations increase.
std::vector<std::int64_t> versions_of(const Push& push) {
  std::vector<std::int64_t> versions;
  for (const checkpoint::NamedTensor& each : push.gradients)
    versions.push_back(each.tensor.is_inference() ? 0 : each.tensor._version());
  return versions;
}

}  // namespace

void PushCopies::copy_gradients(Push& push, std::size_t unchanging) {
  std::vector<at::Tensor>& copies = buffers_[next_];
  copies.resize(push.gradients.size());
  for (std::size_t i = unchanging; i < copies.size(); ++i) {
    const at::Tensor& gradient = push.gradients[i].tensor;
    at::Tensor& copy = copies[i];
    if (copy.defined() && copy.sizes() == gradient.sizes() &&
        copy.scalar_type() == gradient.scalar_type())
      copy.copy_(gradient);
    else
      copy = gradient.detach().clone(at::MemoryFormat::Contiguous);
    push.gradients[i].tensor = copy;
  }
  push.rows = copies_of(push.rows);
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
  call([](ParameterService&, const std::string&, Time) {});  // `repeat` joins
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
  repeat_call({.callee = name(),
               .caller = cluster::to_string(options_.task),
               .end = end + transfer_time(bytes),
               .attempt_timeout = options_.attempt_timeout + transfer_time(bytes),
               .cancel = options_.cancel},
              [&](Time deadline) {
                const std::string token = member_token(deadline);
                try {
                  push_again(*service_, token, deadline);
                  attempt(*service_, token, deadline);
                } catch (const NotMemberError&) {
                  forget(token);
                  throw;
                }
              });
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
  throw Error(ErrorCode::kDataLoss, "The ", name(),
              " came back without its variables: its folder was lost. Give it the folder, or empty "
              "the folders of all servers and start from a checkpoint.");
}

ExchangeReply ServerSession::exchange(ExchangeRequest request, std::uint64_t reply_bytes) {
  if (unfinished_) {
    early_.reset();
    send({.push = unfinished_, .decision = request.decision, .pull = {}}, 0);
    // The values of `read_at` do not have that push, and it is no other worker's.
    if (request.push && request.push->read_at) ++*request.push->read_at;
  }
  if (request.push && request.push->token && request.push->token == last_token_)
    request.push.reset();
  if (request.push) {
    request.push->number = next_push_;
    // What was sent early is not copied before it is answered, so that it can be compared.
    is_copied_ = request.push->acknowledge_later && !early_ && !service_->copies_pushes();
    if (is_copied_) copies_.copy_gradients(*request.push);
    unfinished_ = request.push;
  }
  return send(request, reply_bytes);
}

/// A server that was restarted may lack the last push.
void ServerSession::push_again(ParameterService& service, const std::string& token, Time deadline) {
  if (!unacknowledged_ || unacknowledged_->token == token) return;
  ExchangeRequest request{.push = unacknowledged_->push, .pull = {}};
  request.push->acknowledge_later = false;
  const auto refuse = [&](const auto&... reason) {
    throw Error(ErrorCode::kDataLoss, "The ", name(), " came back without push ",
                request.push->number, " of ", cluster::to_string(options_.task), ", which ",
                reason...);
  };
  if (versions_of(*request.push) != unacknowledged_->versions)
    refuse(
        "cannot be sent again: its gradients were changed in place after backward had made them. "
        "Hooks and autograd functions must not change what they have returned, or set "
        "wait_for_disk.");
  try {
    check_verdict(service.exchange(token, request, deadline), *request.push);
  } catch (const PushRefusedError& error) {
    refuse("it refuses: ", error.what());
  }
  unacknowledged_.reset();
}

void ServerSession::await_disk() {
  if (!unacknowledged_) return;
  call([this](ParameterService& service, const std::string& token, Time deadline) {
    await_disk(service, token, deadline);
  });
}

void ServerSession::await_disk(ParameterService& service, const std::string& token, Time deadline) {
  if (!unacknowledged_) return;
  service.exchange(token, {.pull = {}, .await_disk = true}, deadline);
  unacknowledged_.reset();
}

ExchangeReply ServerSession::send(const ExchangeRequest& request, std::uint64_t reply_bytes) {
  const std::uint64_t bytes = reply_bytes + (request.push ? bytes_of(*request.push) : 0);
  try {
    ExchangeReply reply =
        call([&](ParameterService& service, const std::string& token,
                 Time deadline) { return attempt(service, token, request, deadline); },
             bytes);
    if (request.push) take_answer(reply);
    return reply;
  } catch (const PushRefusedError&) {
    unfinished_.reset();
    throw;
  } catch (...) {
    keep_unfinished_push();
    throw;
  }
}

/// What was sent early is used once: an attempt after it sends all.
ExchangeReply ServerSession::attempt(ParameterService& service, const std::string& token,
                                     const ExchangeRequest& request, Time deadline) {
  if (!request.push) return service.exchange(token, request, deadline);
  pushed_with_ = token;
  sent_early_ = 0;
  std::optional<EarlyExchange> early = std::exchange(early_, std::nullopt);
  if (!early || early->token != token || !early->begins(request))
    return send_whole(service, token, request, deadline);
  sent_early_ = early->sent.size();
  try {
    for (std::size_t i = early->sent.size(); i < request.push->gradients.size(); ++i)
      early->call->add(request.push->gradients[i].tensor);
    return early->call->finish();
  } catch (const NotMemberError&) {
    throw;
  } catch (const Error& error) {
    if (!may_call_again(error)) throw;
    without_early_ = kPushesWithoutEarly;
  }
  early.reset();
  return send_whole(service, token, request, deadline);
}

/// A server may use the gradients of a push that is acknowledged later after its answer.
ExchangeReply ServerSession::send_whole(ParameterService& service, const std::string& token,
                                        const ExchangeRequest& request, Time deadline) {
  if (!request.push->acknowledge_later || service.copies_pushes())
    return service.exchange(token, request, deadline);
  if (!is_copied_) copies_.copy_gradients(*unfinished_, sent_early_);
  is_copied_ = true;
  ExchangeRequest own = request;
  own.push = unfinished_;
  return service.exchange(token, own, deadline);
}

void ServerSession::begin_early(ExchangeRequest request, std::uint64_t reply_bytes) {
  early_.reset();
  if (unfinished_ || (request.push->token && request.push->token == last_token_)) return;
  if (without_early_ > 0) {
    --without_early_;
    return;
  }
  std::string token;
  {
    const concurrency::MutexLock lock(mutex_);
    token = token_;
  }
  if (token.empty()) return;
  request.push->number = next_push_;
  const Time deadline = Clock::now() + std::min(options_.attempt_timeout, options_.server_timeout) +
                        transfer_time(reply_bytes + bytes_of(*request.push));
  try {
    if (auto call = service_->begin_exchange(token, request, deadline))
      early_ = EarlyExchange{
          .request = std::move(request), .token = std::move(token), .call = std::move(call)};
  } catch (const Error&) {
    // The exchange has the same error, and throws it.
  }
}

void ServerSession::send_early(const at::Tensor& gradient) {
  if (!early_) return;
  try {
    early_->call->add(gradient);
    early_->sent.push_back(gradient);
  } catch (const Error&) {
    early_.reset();
  }
}

bool ServerSession::EarlyExchange::begins(const ExchangeRequest& whole) const {
  if (!whole.push || !whole.push->rows.empty() || !whole.pull_rows.empty()) return false;
  const Push& own = *request.push;
  const Push& other = *whole.push;
  const bool is_same =
      own.number == other.number && own.token == other.token && own.read_at == other.read_at &&
      own.acknowledge_later == other.acknowledge_later && request.decision == whole.decision &&
      request.pull == whole.pull && own.gradients.size() == other.gradients.size();
  if (!is_same) return false;
  for (std::size_t i = 0; i < own.gradients.size(); ++i) {
    const at::Tensor& form = own.gradients[i].tensor;
    const at::Tensor& gradient = other.gradients[i].tensor;
    if (own.gradients[i].name != other.gradients[i].name || form.sizes() != gradient.sizes() ||
        form.scalar_type() != gradient.scalar_type() ||
        (i < sent.size() && !sent[i].is_same(gradient)))
      return false;
  }
  return true;
}

void ServerSession::check_verdict(const ExchangeReply& reply, const Push& push) const {
  using coordination::PushVerdict;
  if (reply.verdict == PushVerdict::kFenced)
    throw ReplacedError(base::str_cat("A later life of ", cluster::to_string(options_.task),
                                      " pushes to the ", name(), ": this one has to end."));
  if (reply.verdict == PushVerdict::kGap)
    throw Error(ErrorCode::kDataLoss, "The ", name(), " does not have the pushes of ",
                cluster::to_string(options_.task), " before number ", push.number,
                ", which it acknowledged: it lost updates.");
  if (!reply.verdict)
    throw Error(ErrorCode::kInternal, "The ", name(), " did not say what became of a push.");
}

void ServerSession::take_answer(ExchangeReply& reply) {
  check_verdict(reply, *unfinished_);
  last_token_ = unfinished_->token;
  unacknowledged_.reset();  // the server has waited for those before
  if (reply.acknowledged.value_or(next_push_) < next_push_) {
    if (reply.sent)
      unfinished_ = std::exchange(reply.sent, std::nullopt);
    else if (!is_copied_)
      copies_.copy_gradients(*unfinished_, sent_early_);
    copies_.keep();
    std::vector<std::int64_t> versions = versions_of(*unfinished_);
    unacknowledged_ = UnacknowledgedPush{
        .push = std::move(*unfinished_), .token = pushed_with_, .versions = std::move(versions)};
  }
  reply.sent.reset();
  unfinished_.reset();
  ++next_push_;
}

/// The caller may write to its gradients again once a call has ended.
void ServerSession::keep_unfinished_push() {
  if (!unfinished_) return;
  for (checkpoint::NamedTensor& gradient : unfinished_->gradients)
    gradient.tensor = gradient.tensor.clone();
  unfinished_->rows = copies_of(unfinished_->rows);
  is_copied_ = true;
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
    repeat(
        [this](ParameterService& service, const std::string& token, Time end) {
          await_disk(service, token, end);
          service.leave(token, end);
        },
        deadline);
  } catch (const std::exception& error) {
    // Then its lease runs out.
    if (unacknowledged_)
      base::log_warning("The ", name(), " did not say that it has the last push of ",
                        cluster::to_string(options_.task),
                        " on its disk; if it stops now, that may be lost: ",
                        base::without_stack_trace(error.what()));
  }
}

}  // namespace brigade::ps
