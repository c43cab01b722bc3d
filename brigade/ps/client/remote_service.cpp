#include "brigade/ps/client/remote_service.h"

#include <ATen/ops/from_blob.h>

#include <utility>
#include <vector>

#include "brigade/ps/pair_messages.h"
#include "brigade/ps/service_messages.h"

namespace brigade::ps {
namespace {

/// What an error of the network was at the server.
template <class Call>
auto with_typed_errors(const Call& call) {
  try {
    return call();
  } catch (const rpc::MessageError& error) {
    throw_typed(error);
  }
}

/// The tensors of `record` as they are in its bytes, at their end.
std::vector<at::Tensor> tensors_in(const io::SharedBytes& bytes, const UpdateRecord& record) {
  std::vector<at::Tensor> tensors;
  const char* end = bytes.bytes.data() + bytes.bytes.size();
  for (const checkpoint::NamedTensor& each : record.tensors) end -= each.tensor.nbytes();
  for (const auto& [name, tensor] : record.tensors) {
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(end) % tensor.element_size() == 0;
    tensors.push_back(tensor.nbytes() > 0 && is_aligned
                          ? at::from_blob(
                                const_cast<char*>(end), tensor.sizes(),
                                [owner = bytes.owner](void*) {}, tensor.scalar_type())
                          : tensor.clone(at::MemoryFormat::Contiguous));
    end += tensor.nbytes();
  }
  return tensors;
}

/// `push` with these tensors, which are in the order of its message.
Push as_sent(const Push& push, std::vector<at::Tensor> tensors) {
  Push sent = push;
  std::size_t next = 0;
  for (checkpoint::NamedTensor& gradient : sent.gradients)
    gradient.tensor = std::move(tensors[next++]);
  for (RowGradient& rows : sent.rows) {
    rows.indices = std::move(tensors[next++]);
    rows.values = std::move(tensors[next++]);
  }
  return sent;
}

class RemoteExchange final : public OpenExchange {
 public:
  explicit RemoteExchange(std::unique_ptr<rpc::OpenCall> call) : call_(std::move(call)) {}

  void add(const at::Tensor& gradient) override {
    if (gradient.nbytes() == 0) return;
    call_->write({static_cast<const char*>(gradient.const_data_ptr()), gradient.nbytes()});
  }
  ExchangeReply finish() override {
    return with_typed_errors([this] { return exchange_reply_of(decode_message(call_->finish())); });
  }

 private:
  const std::unique_ptr<rpc::OpenCall> call_;
};

class RemoteService final : public PairedService {
 public:
  RemoteService(std::string address, const std::optional<cluster::ClusterKey>& key,
                const ConnectionOptions& options)
      : address_(std::move(address)),
        client_(rpc::make_message_client(address_, key, {.shared_memory = options.shared_memory})) {
  }

  Grant join(const JoinRequest& request, Time deadline) override {
    return message_of<Grant>(
        decode_state(call(ServiceMethod::kJoin, "", encode_state(to_state(request)), deadline)));
  }

  ServerStatus renew(const std::string& token, Time deadline) override {
    return message_of<ServerStatus>(decode_state(call(ServiceMethod::kRenew, token, "", deadline)));
  }

  void leave(const std::string& token, Time deadline) override {
    call(ServiceMethod::kLeave, token, "", deadline);
  }

  ServerStatus create(const std::string& token, const CreateRequest& request,
                      Time deadline) override {
    return message_of<ServerStatus>(
        transfer(ServiceMethod::kCreate, token, to_message(request), deadline).header);
  }

  void assign(const std::string& token, const std::vector<NamedState>& variables, std::int64_t step,
              Time deadline) override {
    const AssignRequest request{.variables = variables, .step = step};
    transfer(ServiceMethod::kAssign, token, to_message(request), deadline);
  }

  void set_ready(const std::string& token, Time deadline) override {
    call(ServiceMethod::kSetReady, token, "", deadline);
  }

  void set_learning_rate(const std::string& token, double rate, Time deadline) override {
    call(ServiceMethod::kSetLearningRate, token, encode_state(to_state(rate)), deadline);
  }

  ExchangeReply exchange(const std::string& token, const ExchangeRequest& request,
                         Time deadline) override {
    const UpdateRecord message = to_message(request);
    if (!request.push || !request.push->acknowledge_later)
      return exchange_reply_of(transfer(ServiceMethod::kExchange, token, message, deadline));
    return with_typed_errors([&] {
      const rpc::KeptCall call = client_->kept_call(static_cast<int>(ServiceMethod::kExchange),
                                                    token, encode_message(message), deadline);
      ExchangeReply reply = exchange_reply_of(decode_message(call.answer));
      reply.sent = as_sent(*request.push, tensors_in(call.message, message));
      return reply;
    });
  }
  bool copies_pushes() const override { return true; }

  std::unique_ptr<OpenExchange> begin_exchange(const std::string& token,
                                               const ExchangeRequest& request,
                                               Time deadline) override {
    const UpdateRecord message = to_message(request);
    const std::string text = encode_message_text(message);
    std::size_t bytes = text.size();
    for (const checkpoint::NamedTensor& each : message.tensors) bytes += each.tensor.nbytes();
    return with_typed_errors([&] {
      auto call = client_->begin_large_call(static_cast<int>(ServiceMethod::kExchange), token,
                                            bytes, deadline);
      call->write(text);
      return std::make_unique<RemoteExchange>(std::move(call));
    });
  }

  StoredStates states(const std::string& token, const std::vector<std::string>& names,
                      Time deadline) override {
    const UpdateRecord request{.header = to_state(names), .tensors = {}};
    return states_of(transfer(ServiceMethod::kStates, token, request, deadline));
  }

  BeginStepReply begin_step(const std::string& token, const BeginStepRequest& request,
                            Time deadline) override {
    return message_of<BeginStepReply>(decode_state(
        call(ServiceMethod::kBeginStep, token, encode_state(to_state(request)), deadline)));
  }

  RoleReply role(Time deadline) override {
    return message_of<RoleReply>(decode_state(call(ServiceMethod::kRole, "", "", deadline)));
  }

  coordination::PairStatus vote(const Vote& vote, Time deadline) override {
    return message_of<coordination::PairStatus>(
        decode_state(call(ServiceMethod::kVote, "", encode_state(to_state(vote)), deadline)));
  }

  FollowReply follow(const std::string& token, const FollowRequest& request,
                     Time deadline) override {
    return follow_reply_of(transfer(ServiceMethod::kFollow, token, to_message(request), deadline));
  }

  std::string name() const override { return address_; }
  void close() override { client_->close(); }

 private:
  std::string call(ServiceMethod method, const std::string& token, std::string message,
                   Time deadline) {
    return with_typed_errors([&] {
      return client_->call(static_cast<int>(method), token, std::move(message), deadline);
    });
  }

  UpdateRecord transfer(ServiceMethod method, const std::string& token, const UpdateRecord& request,
                        Time deadline) {
    return with_typed_errors([&] {
      return decode_message(
          client_->large_call(static_cast<int>(method), token, encode_message(request), deadline));
    });
  }

  const std::string address_;
  std::unique_ptr<rpc::MessageClient> client_;
};

}  // namespace

std::unique_ptr<ParameterService> connect(const std::string& address,
                                          const std::optional<cluster::ClusterKey>& key,
                                          const ConnectionOptions& options) {
  return std::make_unique<RemoteService>(address, key, options);
}

std::unique_ptr<PairedService> connect_to_pair(const std::string& address,
                                               const std::optional<cluster::ClusterKey>& key,
                                               const ConnectionOptions& options) {
  return std::make_unique<RemoteService>(address, key, options);
}

}  // namespace brigade::ps
