#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/rpc/grpc_threads.h"
#include "brigade/rpc/message_buffer.h"
#include "brigade/rpc/message_service.h"
#include "brigade/rpc/proto/message_service.grpc.pb.h"
#include "brigade/rpc/server_connection.h"

namespace brigade::rpc {
namespace {

using FrameStream = grpc::ClientReaderWriter<proto::Frame, proto::Frame>;

// What a server may answer.
constexpr std::size_t kLargestAnswer = std::size_t{1} << 30;

void set_call_deadline(grpc::ClientContext& context, MessageClient::Time deadline) {
  constexpr std::chrono::hours kLongest{24};
  const auto left = deadline - std::chrono::steady_clock::now();
  context.set_deadline(std::chrono::system_clock::now() +
                       std::min<std::chrono::steady_clock::duration>(left, kLongest));
}

/// Returns when the request was sent, or the call has ended.
void send_message(FrameStream& stream, int method, const std::string& token,
                  const std::string& message) {
  proto::Frame frame;
  frame.mutable_header()->set_method(method);
  frame.mutable_header()->set_token(token);
  frame.mutable_header()->set_bytes(message.size());
  bool is_open = stream.Write(frame);
  for (std::size_t sent = 0; is_open && sent < message.size();) {
    const std::string_view piece = frame_at(message, sent);
    frame.set_bytes(std::string(piece));
    sent += piece.size();
    is_open = stream.Write(frame);
  }
  if (is_open) stream.WritesDone();
}

/// The answer, or nothing if the call ends before it is complete.
std::optional<std::string> receive_message(FrameStream& stream) {
  std::optional<MessageBuffer> answer;
  for (proto::Frame frame; stream.Read(&frame);) {
    check_argument(answer ? frame.has_bytes() : frame.has_header(),
                   "An answer is a header and then bytes.");
    if (answer) {
      answer->append(frame.bytes());
    } else {
      answer.emplace(frame.header().bytes(), kLargestAnswer);
    }
  }
  if (!answer || !answer->is_complete()) return std::nullopt;
  return answer->take();
}

class GrpcMessageClient final : public MessageClient {
 public:
  GrpcMessageClient(const std::string& address, const std::optional<cluster::ClusterKey>& key)
      : connection_(address, key) {}

  std::string call(int method, const std::string& token, std::string message,
                   Time deadline) override {
    check_argument(message.size() <= kFrameBytes,
                   base::str_cat("A small call's message has up to ", kFrameBytes, " bytes, not ",
                                 message.size(), "."));
    proto::SmallCall request;
    request.set_method(method);
    request.set_token(token);
    request.set_message(std::move(message));
    const auto used = channel(deadline);
    const auto stub = proto::Messages::NewStub(used);
    grpc::ClientContext context;
    set_call_deadline(context, deadline);
    const auto registration = closed_.on_cancel([&context] { context.TryCancel(); });
    proto::SmallAnswer answer;
    const grpc::Status status = stub->Small(&context, request, &answer);
    if (!status.ok()) fail(used, status, deadline);
    connection_.note_answer();
    return std::move(*answer.mutable_message());
  }

  std::string large_call(int method, const std::string& token, const std::string& message,
                         Time deadline) override {
    const auto used = channel(deadline);
    const auto stub = proto::Messages::NewStub(used);
    grpc::ClientContext context;
    set_call_deadline(context, deadline);
    const auto registration = closed_.on_cancel([&context] { context.TryCancel(); });
    const auto stream = stub->Large(&context);
    send_message(*stream, method, token, message);
    std::optional<std::string> answer;
    try {
      answer = receive_message(*stream);
    } catch (...) {
      context.TryCancel();
      stream->Finish();
      throw;
    }
    const grpc::Status status = stream->Finish();
    if (!status.ok()) fail(used, status, deadline);
    connection_.note_answer();
    if (!answer)
      throw Error(ErrorCode::kInternal, "A server's answer ended before it was complete.");
    return std::move(*answer);
  }

  void close() override { closed_.cancel(); }

 private:
  void check_open() const {
    if (!closed_.is_cancelled()) return;
    throw Error(ErrorCode::kUnavailable, base::str_cat("The connection to the server at ",
                                                       connection_.address(), " was closed."));
  }

  [[noreturn]] void fail(const std::shared_ptr<grpc::Channel>& used, const grpc::Status& status,
                         Time deadline) {
    check_open();
    connection_.fail(used, status, deadline);
  }

  std::shared_ptr<grpc::Channel> channel(Time deadline) {
    check_open();
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorCode::kDeadlineExceeded,
                  base::str_cat("The deadline of a call to the server at ", connection_.address(),
                                " had passed before it began."));
    }
    return connection_.channel(deadline);
  }

  ServerConnection connection_;
  const concurrency::CancelToken closed_;
};

}  // namespace

std::unique_ptr<MessageClient> make_message_client(const std::string& address,
                                                   const std::optional<cluster::ClusterKey>& key) {
  return with_grpc_threads([&] { return std::make_unique<GrpcMessageClient>(address, key); });
}

}  // namespace brigade::rpc
