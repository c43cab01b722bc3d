#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/address.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/call_environment.h"
#include "brigade/rpc/endpoint.h"
#include "brigade/rpc/grpc_threads.h"
#include "brigade/rpc/large_call.h"
#include "brigade/rpc/message_errors.h"
#include "brigade/rpc/message_service.h"
#include "brigade/rpc/proto/message_service.grpc.pb.h"
#include "brigade/rpc/service_host.h"

namespace brigade::rpc {
namespace {

// A frame, its header and what protobuf adds.
constexpr int kLargestFrame = static_cast<int>(kFrameBytes) + (64 << 10);
// Callers renew their leases far more often, so a connection without a call is no caller's.
constexpr std::chrono::seconds kIdleTimeout{60};
constexpr std::chrono::seconds kHandshakeTimeout{5};
// Callers that are there use their memory with each step.
constexpr std::chrono::seconds kForgetMemory{10};

/// The large calls in progress.
///
/// Thread-safety: all functions from any thread.
class LargeCalls {
 public:
  void add(const std::shared_ptr<LargeCall>& call) {
    const concurrency::MutexLock lock(mutex_);
    std::erase_if(calls_, [](const std::weak_ptr<LargeCall>& each) { return each.expired(); });
    calls_.push_back(call);
  }

  std::vector<std::shared_ptr<LargeCall>> all() {
    std::vector<std::shared_ptr<LargeCall>> calls;
    const concurrency::MutexLock lock(mutex_);
    for (const auto& each : calls_) {
      if (auto call = each.lock()) calls.push_back(std::move(call));
    }
    return calls;
  }

 private:
  concurrency::Mutex mutex_;
  std::vector<std::weak_ptr<LargeCall>> calls_ BRIGADE_GUARDED_BY(mutex_);
};

/// A small call's slots among those in progress, and among those that wait.
struct Slots {
  Budget::Part call;
  std::optional<Budget::Part> wait;
};

/// Frames are read and written without protobuf.
using MessagesOfBytes = proto::Messages::WithCallbackMethod_Small<
    proto::Messages::WithRawCallbackMethod_Large<proto::Messages::Service>>;

class GrpcMessages final : public MessagesOfBytes {
 public:
  explicit GrpcMessages(CallEnvironment& environment) : environment_(environment) {}

  LargeCalls& large_calls() { return large_calls_; }

  grpc::ServerUnaryReactor* Small(grpc::CallbackServerContext* context,
                                  const proto::SmallCall* call,
                                  proto::SmallAnswer* answer) override {
    auto* reactor = context->DefaultReactor();
    const grpc::Status status = status_after([&] {
      check_token_size(call->token().size());
      auto& threads = environment_.threads_of(call->method());
      // Shared, since a task of the pool can be copied.
      auto slots = std::make_shared<std::optional<Slots>>(admit(call->method()));
      threads.submit([this, context, call, answer, reactor, slots] {
        const grpc::Status result = status_after([&] { make(*context, *call, *answer); });
        slots->reset();  // so that a caller that has the answer has room for its next call
        reactor->Finish(result);
      });
    });
    if (!status.ok()) reactor->Finish(status);
    return reactor;
  }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Large(
      grpc::CallbackServerContext* context) override {
    const auto call = LargeCall::open(environment_, *context);
    large_calls_.add(call);  // first, so that a listener that ends finds it
    call->start();
    return call.get();
  }

 private:
  Slots admit(int method) {
    Slots slots{.call = environment_.admit_call(), .wait = std::nullopt};
    if (environment_.service.threads_of(method) != CallThreads::kWaiting) return slots;
    slots.wait = environment_.waits.take(1);
    if (!slots.wait) throw_busy("The server has too many calls that wait.");
    return slots;
  }

  void make(grpc::CallbackServerContext& context, const proto::SmallCall& call,
            proto::SmallAnswer& answer) {
    const auto check = [this, &context] {
      environment_.check_open();
      if (context.IsCancelled()) throw Error(ErrorCode::kCancelled, "The caller is gone.");
    };
    check();
    const io::BytePieces message =
        environment_.service.answer({.method = call.method(),
                                     .token = call.token(),
                                     .message = io::shared_bytes(call.message()),
                                     .deadline = deadline_of(context),
                                     .check = check});
    check_argument(message.size() <= kFrameBytes, "The answer is too large for a small call.");
    answer.set_message(message.joined());
  }

  CallEnvironment& environment_;
  LargeCalls large_calls_;
};

class GrpcMessageListener final : public MessageListener {
 public:
  GrpcMessageListener(MessageService& service, const MessageListenerOptions& options,
                      const cluster::Address& address)
      : silence_(options.silence),
        environment_(service, options),
        calls_(environment_),
        host_(calls_, {.address = address,
                       .key = options.key,
                       .clients = options.callers,
                       .max_message_bytes = kLargestFrame,
                       .idle_timeout = kIdleTimeout,
                       .handshake_timeout = kHandshakeTimeout}),
        watcher_([this] { watch(); }) {}

  ~GrpcMessageListener() override {
    host_.refuse_connections();
    environment_.is_closing = true;
    {
      const concurrency::MutexLock lock(mutex_);
      is_ending_ = true;
      changed_.notify_all();
    }
    watcher_.join();
    for (const auto& call : calls_.large_calls().all()) call->end_unless_complete();
    host_.shut_down();
  }

  std::string address() const override { return cluster::to_string(host_.address()); }
  MessageLoad load() const override {
    return {.buffered_bytes = environment_.message_bytes.taken(),
            .max_buffered_bytes = environment_.max_buffered_bytes,
            .calls = environment_.calls.taken(),
            .waits = environment_.waits.taken()};
  }

 private:
  /// Ends calls whose messages do not come or are not taken, and frees memory of callers that are
  /// gone.
  void watch() {
    constexpr std::chrono::milliseconds kShortestPause{10};
    for (;;) {
      {
        const MessageService::Time next =
            std::chrono::steady_clock::now() + std::max(silence_ / 4, kShortestPause);
        const concurrency::MutexLock lock(mutex_);
        while (!is_ending_ && std::chrono::steady_clock::now() < next)
          changed_.wait_until(mutex_, next);
        if (is_ending_) return;
      }
      for (const auto& call : calls_.large_calls().all())
        call->end_if_silent(std::chrono::steady_clock::now(), silence_);
      environment_.segments.forget_unused(std::chrono::steady_clock::now() - kForgetMemory);
    }
  }

  const std::chrono::milliseconds silence_;
  concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  bool is_ending_ BRIGADE_GUARDED_BY(mutex_) = false;
  CallEnvironment environment_;
  GrpcMessages calls_;
  ServiceHost host_;  // ends before what its calls use
  std::jthread watcher_;
};

void check_options(const MessageListenerOptions& options) {
  check_argument(options.callers >= 1 && options.threads >= 1 && options.max_message_bytes >= 1,
                 "A listener has callers, threads and max_message_bytes of 1 or more, not ",
                 options.callers, ", ", options.threads, " and ", options.max_message_bytes, ".");
  check_argument(
      options.silence >= std::chrono::milliseconds(1) && options.silence <= std::chrono::hours(1),
      "A listener's silence is from 1 ms to an hour, not ", options.silence.count(), " ms.");
}

}  // namespace

std::unique_ptr<MessageListener> listen_for_messages(MessageService& service,
                                                     const MessageListenerOptions& options) {
  check_options(options);
  const auto address = cluster::parse_address(options.address, cluster::PortZero::kAllowed);
  require_key_beyond_loopback(address, options.key ? KeyState::kPresent : KeyState::kAbsent,
                              "listen on");
  return with_grpc_threads(
      [&] { return std::make_unique<GrpcMessageListener>(service, options, address); });
}

}  // namespace brigade::rpc
