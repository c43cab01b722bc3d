#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/cluster/task.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/ps/client/repeated_call.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {

struct ServerSessionOptions {
  cluster::Task task;  ///< who calls
  int server = 0;      ///< the server's index
  /// A call fails when the server could not be reached for this long.
  std::chrono::milliseconds server_timeout = std::chrono::minutes(5);
  /// A call that takes longer, beside a second for each megabyte of its messages, is made again,
  /// with twice the time.
  std::chrono::milliseconds attempt_timeout = std::chrono::seconds(30);
  /// Ends the pauses between attempts.
  concurrency::CancelToken cancel = {};
};

/// Copies of a worker's latest pushes to a server, in memory that is used again: of the next one,
/// and of the last one, which may have to be sent again.
///
/// Thread-safety: one thread.
class PushCopies {
 public:
  /// Replaces the gradients of `push` by copies, which are valid until the next call; the first
  /// `unchanging` ones, which nobody changes, are left as they are.
  void copy_gradients(Push& push, std::size_t unchanging = 0);
  /// Keeps these copies during the next call, too. Those that were kept before are over.
  void keep() { next_ = 1 - next_; }

 private:
  std::array<std::vector<at::Tensor>, 2> buffers_;
  std::size_t next_ = 0;
};

/// One parameter server as its client keeps it: the membership, the number of the next push, and
/// calls that are made again until they are answered.
///
/// Thread-safety: `renew`, `close`, `lease` and `name` from any thread; the others by one thread at
/// a time.
class ServerSession {
 public:
  using Time = ParameterService::Time;

  ServerSession(std::unique_ptr<ParameterService> service, ServerSessionOptions options);

  /// "parameter server 1 (host:port)".
  std::string name() const;

  /// Joins and returns the incarnation: the one given, or for 0 a new one. Waits for the server as
  /// `call` does.
  std::int64_t join(std::int64_t incarnation) BRIGADE_EXCLUDES(joins_, mutex_);
  /// How long the membership lasts unless it is renewed; 0 before the first join.
  std::chrono::milliseconds lease() const BRIGADE_EXCLUDES(mutex_);

  /// Calls `make(service, token, deadline)` until it is answered, and returns what it returns.
  /// Joins first if it is no member. Throws what it throws, but kUnavailable, naming the server and
  /// the last reason, if the server did not answer within the timeout; kCancelled. `bytes`: of the
  /// request and of the reply, as far as they are known.
  template <class Make>
  auto call(const Make& make, std::uint64_t bytes = 0) {
    using Reply = std::invoke_result_t<Make, ParameterService&, const std::string&, Time>;
    const Time end = std::chrono::steady_clock::now() + options_.server_timeout;
    if constexpr (std::is_void_v<Reply>) {
      repeat(make, end, bytes);
    } else {
      std::optional<Reply> reply;
      repeat([&](ParameterService& service, const std::string& token,
                 Time deadline) { reply.emplace(make(service, token, deadline)); },
             end, bytes);
      return std::move(*reply);
    }
  }

  /// An exchange whose push, if it has one, gets the next number. A push whose outcome is not known
  /// (the server did not return in time) is kept, and the next exchange completes it first. In
  /// kSync mode a push for a token that the server has gradients for is left out.
  ///
  /// A push with `Push::acknowledge_later` is kept until the server has it on its disk. If the
  /// server returns without it, it is sent again before anything else.
  ///
  /// Throws kDataLoss if the server has lost earlier pushes. After PushRefusedError the push was
  /// not applied, and its number is used again; after any other error it is kept.
  /// `reply_bytes`: of the values, as far as they are known.
  ExchangeReply exchange(ExchangeRequest request, std::uint64_t reply_bytes = 0);

  /// Begins to send the push that the next `exchange` with a push makes, before its gradients are
  /// known: of those of `request` only names, shapes and dtypes count. It only saves time. If it is
  /// not possible at the moment, or fails, `exchange` sends all, and so it does if its request
  /// turns out to be another one.
  void begin_early(ExchangeRequest request, std::uint64_t reply_bytes = 0);
  /// The next gradient of that push, contiguous: the tensor that `exchange` will have. It never
  /// changes any more.
  void send_early(const at::Tensor& gradient);
  /// Gives it up: the server does nothing.
  void drop_early() noexcept { early_.reset(); }

  /// How many pushes of this worker the server has answered.
  std::int64_t answered() const { return next_push_ - 1; }
  /// Waits until the server has all pushes on its disk.
  void await_disk();
  /// Whether there may be a push that it does not have there.
  bool has_unacknowledged() const { return unacknowledged_.has_value(); }

  /// From now on the server has variables: if it returns without, that is kDataLoss.
  void expect_variables() BRIGADE_EXCLUDES(mutex_);

  /// Renews the membership once, and joins again if it has ended. Returns false if the server did
  /// not answer by `deadline`, and before the first `join`. Throws other errors.
  bool renew(Time deadline) BRIGADE_EXCLUDES(joins_, mutex_);
  /// Leaves as finished, if the server answers by `deadline`; else the lease will run out.
  void leave(Time deadline) noexcept;
  /// Ends a call in progress, and later ones.
  void close() { service_->close(); }

 private:
  using Attempt = std::function<void(ParameterService&, const std::string& token, Time deadline)>;

  /// One call, made again until `end`, and the time for its bytes.
  void repeat(const Attempt& attempt, Time end, std::uint64_t bytes = 0);
  /// The token of the membership; joins if there is none.
  std::string member_token(Time deadline) BRIGADE_EXCLUDES(joins_, mutex_);
  /// The server does not know this token any longer.
  void forget(const std::string& token) BRIGADE_EXCLUDES(mutex_);
  void check_has_variables(const std::string& token, Time deadline);
  void push_again(ParameterService& service, const std::string& token, Time deadline);
  void await_disk(ParameterService& service, const std::string& token, Time deadline);
  ExchangeReply send(const ExchangeRequest& request, std::uint64_t reply_bytes);
  ExchangeReply attempt(ParameterService& service, const std::string& token,
                        const ExchangeRequest& request, Time deadline);
  ExchangeReply send_whole(ParameterService& service, const std::string& token,
                           const ExchangeRequest& request, Time deadline);
  void check_verdict(const ExchangeReply& reply, const Push& push) const;
  void take_answer(ExchangeReply& reply);
  void keep_unfinished_push();

  const std::unique_ptr<ParameterService> service_;
  const ServerSessionOptions options_;

  // Held while joining, so that two threads do not void each other's tokens.
  concurrency::Mutex joins_;
  mutable concurrency::Mutex mutex_;
  std::string token_ BRIGADE_GUARDED_BY(mutex_);  // empty: no member
  std::int64_t incarnation_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::chrono::milliseconds lease_ BRIGADE_GUARDED_BY(mutex_){0};
  bool expects_variables_ BRIGADE_GUARDED_BY(mutex_) = false;

  /// A push of which a part was sent.
  struct EarlyExchange {
    ExchangeRequest request;  // with forms for gradients
    std::string token;
    std::unique_ptr<OpenExchange> call;
    std::vector<at::Tensor> sent = {};
    /// Whether it is the beginning of `whole`.
    bool begins(const ExchangeRequest& whole) const;
  };

  // Of the calling thread.
  std::int64_t next_push_ = 1;
  std::optional<Push> unfinished_;  // sent, and not answered
  std::string pushed_with_;         // the token that was used for it
  PushCopies copies_;
  bool is_copied_ = false;      // the gradients of unfinished_ are nobody else's
  std::size_t sent_early_ = 0;  // so many of them do not change
  /// A push that was answered, and which the server may not have on its disk.
  struct UnacknowledgedPush {
    Push push;
    std::string token;                   // of the membership in which it was answered
    std::vector<std::int64_t> versions;  // of its gradients
  };
  std::optional<UnacknowledgedPush> unacknowledged_;
  std::optional<EarlyExchange> early_;  // of the next push
  int without_early_ = 0;               // so many pushes are not sent early, since one has failed
  std::optional<coordination::StepDecider::Token> last_token_;  // kSync: the server has gradients
};

}  // namespace brigade::ps
