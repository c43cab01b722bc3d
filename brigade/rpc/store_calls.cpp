#include "brigade/rpc/store_calls.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "brigade/rpc/proto/rendezvous.grpc.pb.h"
#include "brigade/rpc/proto_conversion.h"

namespace brigade::rpc {
namespace {

class GrpcStoreCalls final : public StoreCalls {
 public:
  GrpcStoreCalls(std::shared_ptr<grpc::Channel> channel, concurrency::CancelToken cancel,
                 std::chrono::milliseconds patience)
      : stub_(proto::Rendezvous::NewStub(std::move(channel))),
        cancel_(std::move(cancel)),
        patience_(patience) {}

  void set(const Credential& caller, std::string_view key, std::string_view value) override {
    auto request = request_of<proto::SetRequest>(caller, key);
    request.set_value(std::string(value));
    proto::SetReply reply;
    call(std::chrono::milliseconds(0),
         [&](grpc::ClientContext& context) { return stub_->Set(&context, request, &reply); });
  }

  std::int64_t add(const Credential& caller, std::string_view key, std::int64_t delta) override {
    auto request = request_of<proto::AddRequest>(caller, key);
    request.set_delta(delta);
    proto::AddReply reply;
    call(std::chrono::milliseconds(0),
         [&](grpc::ClientContext& context) { return stub_->Add(&context, request, &reply); });
    return reply.sum();
  }

  std::int64_t append(const Credential& caller, std::string_view key,
                      std::string_view value) override {
    auto request = request_of<proto::AppendRequest>(caller, key);
    request.set_value(std::string(value));
    proto::AppendReply reply;
    call(std::chrono::milliseconds(0),
         [&](grpc::ClientContext& context) { return stub_->Append(&context, request, &reply); });
    return reply.number();
  }

  std::string get(const Credential& caller, std::string_view key,
                  std::chrono::milliseconds timeout) override {
    auto request = request_of<proto::GetRequest>(caller, key);
    request.set_timeout_ms(timeout.count());
    proto::GetReply reply;
    call(timeout,
         [&](grpc::ClientContext& context) { return stub_->Get(&context, request, &reply); });
    return std::move(*reply.mutable_value());
  }

  void barrier(const Credential& caller, std::string_view name,
               std::chrono::milliseconds timeout) override {
    proto::BarrierRequest request;
    fill(caller, *request.mutable_caller());
    request.set_name(std::string(name));
    request.set_timeout_ms(timeout.count());
    proto::BarrierReply reply;
    call(timeout,
         [&](grpc::ClientContext& context) { return stub_->Barrier(&context, request, &reply); });
  }

 private:
  template <class Request>
  static Request request_of(const Credential& caller, std::string_view key) {
    Request request;
    fill(caller, *request.mutable_caller());
    request.set_key(std::string(key));
    return request;
  }

  template <class Call>
  void call(std::chrono::milliseconds timeout, const Call& make) {
    grpc::ClientContext context;
    const auto wait = std::clamp(timeout, std::chrono::milliseconds(0), kLongestWait);
    context.set_deadline(std::chrono::system_clock::now() + wait + patience_);
    const auto registration = cancel_.on_cancel([&context] { context.TryCancel(); });
    const grpc::Status status = make(context);
    if (status.ok()) return;
    if (is_ours(status)) throw to_error(status);
    throw ConnectionError(ErrorCode::kUnavailable, status.error_message());
  }

  std::unique_ptr<proto::Rendezvous::Stub> stub_;
  const concurrency::CancelToken cancel_;
  const std::chrono::milliseconds patience_;
};

}  // namespace

std::unique_ptr<StoreCalls> make_store_calls(std::shared_ptr<grpc::Channel> channel,
                                             concurrency::CancelToken cancel,
                                             std::chrono::milliseconds patience) {
  return std::make_unique<GrpcStoreCalls>(std::move(channel), std::move(cancel), patience);
}

}  // namespace brigade::rpc
