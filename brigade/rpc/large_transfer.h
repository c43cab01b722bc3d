#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <memory>
#include <optional>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/io/byte_pieces.h"
#include "brigade/rpc/message_segments.h"

namespace brigade::rpc {

/// The client side of one call with large messages, frame by frame. The frames are written and read
/// without protobuf. Destroyed before `finish`, it cancels the call.
///
/// Thread-safety: one thread at a time. All functions return when the call's deadline has passed,
/// or `closed` is cancelled.
class LargeTransfer {
 public:
  LargeTransfer(std::shared_ptr<grpc::Channel> channel, const concurrency::CancelToken& closed,
                std::chrono::steady_clock::time_point deadline);
  ~LargeTransfer();
  LargeTransfer(const LargeTransfer&) = delete;
  LargeTransfer& operator=(const LargeTransfer&) = delete;

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  /// Returns whether the call continues. Does nothing if it does not.
  bool write(const grpc::ByteBuffer& frame);
  /// The answer to the message, which is complete; nothing if the call has ended before. `memory`:
  /// for the answer, or null; its user afterwards is the answer. Throws kInvalidArgument or
  /// kInternal for frames that are no answer.
  std::optional<io::SharedBytes> receive(MessageSegments& segments,
                                         std::unique_ptr<MessageSegments::Loan> memory);
  /// How the call has ended.
  grpc::Status finish();

 private:
  bool read(grpc::ByteBuffer& frame);
  /// Whether the operation that was started succeeded.
  bool await();

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  const concurrency::CancelRegistration cancel_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool is_open_ = true;
  bool is_finished_ = false;
};

}  // namespace brigade::rpc
