#include <atomic>
#include <cstdint>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/ps/client/remote_service.h"
#include "brigade/ps/pair_messages.h"
#include "brigade/ps/server/step_waits.h"
#include "brigade/ps/service_messages.h"
#include "brigade/rpc/message_service.h"
#include "brigade/rpc/token.h"

namespace brigade::ps {
namespace {

/// A ParameterService as a service of messages.
class ServedParameters final : public rpc::MessageService {
 public:
  /// `paired` is `service`, or null for one that is not replicated.
  ServedParameters(ParameterService& service, PairedService* paired)
      : service_(service), paired_(paired), waits_(service) {}

  rpc::CallThreads threads_of(int method) const override {
    switch (method_of(method)) {
      case ServiceMethod::kRenew:
      case ServiceMethod::kRole:
      case ServiceMethod::kVote:
        return rpc::CallThreads::kQuick;
      case ServiceMethod::kLeave:  // for the disk, and the replica
      case ServiceMethod::kBeginStep:
      case ServiceMethod::kFollow:
        return rpc::CallThreads::kWaiting;
      default:
        return rpc::CallThreads::kWork;
    }
  }

  /// Pushes wait, with their messages, until the replica has their records.
  bool shares_answers(int method) const override {
    return method_of(method) == ServiceMethod::kFollow;
  }

  void admit(const std::string& token, Time deadline) override {
    if (paired_ != nullptr && rpc::is_same_token(token, follow_token())) return;
    with_error_kinds([&] { service_.renew(token, deadline); });
  }

  io::BytePieces answer(rpc::MessageCall call) override {
    io::BytePieces answer;
    with_error_kinds([&] {
      check_admitted(call);
      received_bytes_ += static_cast<std::int64_t>(call.message.bytes.size());
      answer = make(call);
    });
    sent_bytes_ += static_cast<std::int64_t>(answer.size());
    return answer;
  }

  std::int64_t received_bytes() const { return received_bytes_; }
  std::int64_t sent_bytes() const { return sent_bytes_; }

 private:
  ServiceMethod method_of(int number) const {
    const ServiceMethod last = paired_ ? ServiceMethod::kFollow : ServiceMethod::kBeginStep;
    check_argument(
        number >= static_cast<int>(ServiceMethod::kJoin) && number <= static_cast<int>(last),
        "A parameter server has no call ", number, ".");
    return static_cast<ServiceMethod>(number);
  }

  static bool is_large(ServiceMethod method) {
    return method == ServiceMethod::kCreate || method == ServiceMethod::kAssign ||
           method == ServiceMethod::kExchange || method == ServiceMethod::kStates ||
           method == ServiceMethod::kFollow;
  }
  /// Whether members alone make it.
  static bool needs_token(ServiceMethod method) {
    return method != ServiceMethod::kJoin && method != ServiceMethod::kRole &&
           method != ServiceMethod::kVote;
  }

  std::string follow_token() const { return paired_->role(Time::max()).follow_token; }

  /// Before anything is read of what the caller has sent.
  void check_admitted(const rpc::MessageCall& call) {
    const ServiceMethod method = method_of(call.method);
    check_argument(call.is_large == is_large(method), "Call ", call.method,
                   " of a parameter server is made as a ", is_large(method) ? "large" : "small",
                   " call.");
    if (!call.is_large && needs_token(method)) admit(call.token, call.deadline);
  }

  /// Takes the message of `call`, so that it is in memory no longer than its tensors.
  static UpdateRecord take_message(rpc::MessageCall& call) {
    return decode_message(std::exchange(call.message, {}));
  }

  io::BytePieces make(rpc::MessageCall& call) {
    const std::string& token = call.token;
    switch (method_of(call.method)) {
      case ServiceMethod::kJoin: {
        const JoinRequest request = join_request_of(decode_state(call.message.bytes));
        return encode_state(to_state(service_.join(request, call.deadline)));
      }
      case ServiceMethod::kRenew:
        return encode_state(to_state(service_.renew(token, call.deadline)));
      case ServiceMethod::kLeave:
        service_.leave(token, call.deadline);
        return {};
      case ServiceMethod::kCreate: {
        const CreateRequest request = create_request_of(take_message(call));
        const ServerStatus before = service_.create(token, request, call.deadline);
        return encode_message({.header = to_state(before), .tensors = {}});
      }
      case ServiceMethod::kAssign: {
        const AssignRequest request = assign_request_of(take_message(call));
        service_.assign(token, request.variables, request.step, call.deadline);
        return encode_message({});
      }
      case ServiceMethod::kSetReady:
        service_.set_ready(token, call.deadline);
        return {};
      case ServiceMethod::kSetLearningRate:
        service_.set_learning_rate(token, learning_rate_of(decode_state(call.message.bytes)),
                                   call.deadline);
        return {};
      case ServiceMethod::kExchange: {
        ReplyMemory memory(call.answer_memory.bytes, call.answer_memory.owner);
        ExchangeRequest request = exchange_request_of(take_message(call));
        request.reply_memory = &memory;
        const UpdateRecord reply = to_message(service_.exchange(token, request, call.deadline));
        return encode_message(reply, memory.text_bytes());
      }
      case ServiceMethod::kStates: {
        const std::vector<std::string> names = names_of(take_message(call).header);
        return encode_message(to_message(service_.states(token, names, call.deadline)));
      }
      case ServiceMethod::kBeginStep: {
        const BeginStepRequest request =
            message_of<BeginStepRequest>(decode_state(call.message.bytes));
        return encode_state(to_state(waits_.run(token, request, call.deadline, call.check)));
      }
      case ServiceMethod::kRole:
        return encode_state(to_state(paired_->role(call.deadline)));
      case ServiceMethod::kVote:
        return encode_state(to_state(
            paired_->vote(message_of<Vote>(decode_state(call.message.bytes)), call.deadline)));
      case ServiceMethod::kFollow: {
        const FollowRequest request = follow_request_of(take_message(call));
        return encode_message(to_message(paired_->follow(token, request, call.deadline)));
      }
    }
    throw Error(ErrorCode::kInternal, "A call of a parameter server is not implemented.");
  }

  ParameterService& service_;
  PairedService* const paired_;
  StepWaits waits_;
  std::atomic<std::int64_t> received_bytes_{0};
  std::atomic<std::int64_t> sent_bytes_{0};
};

class MessageServiceListener final : public ServiceListener {
 public:
  MessageServiceListener(ParameterService& service, PairedService* paired,
                         const ServiceListenerOptions& options)
      : served_(service, paired),
        listener_(
            rpc::listen_for_messages(served_, {.address = options.address,
                                               .key = options.key,
                                               .callers = static_cast<std::size_t>(options.tasks),
                                               .max_message_bytes = options.max_message_bytes,
                                               .max_buffered_bytes = options.max_buffered_bytes,
                                               .threads = static_cast<std::size_t>(options.threads),
                                               .silence = options.silence,
                                               .shared_memory = options.shared_memory})) {}

  std::string address() const override { return listener_->address(); }
  ServiceLoad load() const override {
    return {.received_bytes = served_.received_bytes(),
            .sent_bytes = served_.sent_bytes(),
            .messages = listener_->load()};
  }

 private:
  ServedParameters served_;
  std::unique_ptr<rpc::MessageListener> listener_;  // uses served_
};

void check_listener(const ServiceListenerOptions& options) {
  check_argument(options.tasks >= 1 && options.threads >= 1,
                 "A parameter server listens with tasks and threads of 1 or more, not ",
                 options.tasks, " and ", options.threads, ".");
}

}  // namespace

std::unique_ptr<ServiceListener> listen(ParameterService& service,
                                        const ServiceListenerOptions& options) {
  check_listener(options);
  return std::make_unique<MessageServiceListener>(service, nullptr, options);
}

std::unique_ptr<ServiceListener> listen(PairedService& service,
                                        const ServiceListenerOptions& options) {
  check_listener(options);
  return std::make_unique<MessageServiceListener>(service, &service, options);
}

}  // namespace brigade::ps
