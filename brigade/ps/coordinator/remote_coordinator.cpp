#include "brigade/ps/coordinator/remote_coordinator.h"

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/ps/coordinator/coordinator_messages.h"
#include "brigade/ps/service_messages.h"

namespace brigade::ps {
namespace {

// Results are stored one at a time, and decoded meanwhile.
constexpr std::size_t kCoordinatorThreads = 2;

/// A CoordinatorService as a service of messages.
class ServedCoordinator final : public rpc::MessageService {
 public:
  explicit ServedCoordinator(CoordinatorService& service) : service_(service) {}

  rpc::CallThreads threads_of(int method) const override {
    switch (method_of(method)) {
      case CoordinatorMethod::kRenew:
      case CoordinatorMethod::kLeave:
        return rpc::CallThreads::kQuick;
      case CoordinatorMethod::kTake:
        return rpc::CallThreads::kWaiting;
      case CoordinatorMethod::kJoin:
      case CoordinatorMethod::kFinish:
        return rpc::CallThreads::kWork;
    }
    throw Error(ErrorCode::kInternal, "A call of a coordinator has no threads.");
  }

  void admit(const std::string& token, Time deadline) override {
    with_error_kinds([&] { service_.renew(token, 0, deadline); });
  }

  io::BytePieces answer(rpc::MessageCall call) override {
    io::BytePieces answer;
    with_error_kinds([&] {
      check_admitted(call);
      answer = make(call);
    });
    return answer;
  }

 private:
  static CoordinatorMethod method_of(int number) {
    check_argument(number >= static_cast<int>(CoordinatorMethod::kJoin) &&
                       number <= static_cast<int>(CoordinatorMethod::kFinish),
                   "A coordinator has no call ", number, ".");
    return static_cast<CoordinatorMethod>(number);
  }

  /// Before anything is read of what the caller has sent.
  void check_admitted(const rpc::MessageCall& call) {
    const CoordinatorMethod method = method_of(call.method);
    const bool is_large =
        method == CoordinatorMethod::kTake || method == CoordinatorMethod::kFinish;
    check_argument(call.is_large == is_large, "Call ", call.method,
                   " of a coordinator is made as a ", is_large ? "large" : "small", " call.");
    if (!is_large && method != CoordinatorMethod::kJoin) admit(call.token, call.deadline);
  }

  io::BytePieces make(rpc::MessageCall& call) {
    const std::string& token = call.token;
    switch (method_of(call.method)) {
      case CoordinatorMethod::kJoin:
        return encode_state(to_state(
            service_.join(worker_join_of(decode_state(call.message.bytes)), call.deadline)));
      case CoordinatorMethod::kRenew:
        return encode_state(to_state(
            service_.renew(token, running_of(decode_state(call.message.bytes)), call.deadline)));
      case CoordinatorMethod::kLeave:
        service_.leave(token, call.deadline);
        return {};
      case CoordinatorMethod::kTake: {
        TakeRequest request = take_request_of(decode_message(call.message));
        request.check = call.check;
        return encode_message(to_message(service_.take(token, request, call.deadline)));
      }
      case CoordinatorMethod::kFinish: {
        // Its tensors keep the message in memory.
        const FunctionReport report =
            function_report_of(decode_message(std::exchange(call.message, {})));
        service_.finish(token, report, call.deadline);
        return encode_message({});
      }
    }
    throw Error(ErrorCode::kInternal, "A call of a coordinator is not implemented.");
  }

  CoordinatorService& service_;
};

class RemoteCoordinator final : public CoordinatorService {
 public:
  RemoteCoordinator(std::string address, const std::optional<cluster::ClusterKey>& key)
      : address_(std::move(address)), client_(rpc::make_message_client(address_, key)) {}

  WorkerGrant join(const WorkerJoin& request, Time deadline) override {
    return message_of<WorkerGrant>(decode_state(
        call(CoordinatorMethod::kJoin, "", encode_state(to_state(request)), deadline)));
  }
  WorkerStatus renew(const std::string& token, std::int64_t running, Time deadline) override {
    return message_of<WorkerStatus>(decode_state(
        call(CoordinatorMethod::kRenew, token, encode_state(running_state(running)), deadline)));
  }
  TakeReply take(const std::string& token, const TakeRequest& request, Time deadline) override {
    return take_reply_of(transfer(CoordinatorMethod::kTake, token, to_message(request), deadline));
  }
  void finish(const std::string& token, const FunctionReport& report, Time deadline) override {
    transfer(CoordinatorMethod::kFinish, token, to_message(report), deadline);
  }
  void leave(const std::string& token, Time deadline) override {
    call(CoordinatorMethod::kLeave, token, "", deadline);
  }

  std::string name() const override { return address_; }

 private:
  std::string call(CoordinatorMethod method, const std::string& token, std::string message,
                   Time deadline) {
    try {
      return client_->call(static_cast<int>(method), token, std::move(message), deadline);
    } catch (const rpc::MessageError& error) {
      throw_typed(error);
    }
  }

  UpdateRecord transfer(CoordinatorMethod method, const std::string& token,
                        const UpdateRecord& request, Time deadline) {
    try {
      return decode_message(
          client_->large_call(static_cast<int>(method), token, encode_message(request), deadline));
    } catch (const rpc::MessageError& error) {
      throw_typed(error);
    }
  }

  const std::string address_;
  std::unique_ptr<rpc::MessageClient> client_;
};

}  // namespace

CoordinatorListener::CoordinatorListener(CoordinatorService& service,
                                         const CoordinatorListenerOptions& options) {
  check_argument(options.workers >= 1, "A coordinator listens for ", options.workers,
                 " workers; it needs at least 1.");
  served_ = std::make_unique<ServedCoordinator>(service);
  listener_ =
      rpc::listen_for_messages(*served_, {.address = options.address,
                                          .key = options.key,
                                          .callers = static_cast<std::size_t>(options.workers),
                                          .max_message_bytes = options.max_message_bytes,
                                          .max_buffered_bytes = options.max_buffered_bytes,
                                          .threads = kCoordinatorThreads,
                                          .silence = options.silence});
}

CoordinatorListener::~CoordinatorListener() = default;

std::unique_ptr<CoordinatorService> connect_to_coordinator(
    const std::string& address, const std::optional<cluster::ClusterKey>& key) {
  return std::make_unique<RemoteCoordinator>(address, key);
}

}  // namespace brigade::ps
