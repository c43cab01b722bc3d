#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/shared_segment.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/grpc_threads.h"
#include "brigade/rpc/message_buffer.h"
#include "brigade/rpc/message_frame.h"
#include "brigade/rpc/message_segments.h"
#include "brigade/rpc/message_service.h"
#include "brigade/rpc/proto/message_service.grpc.pb.h"
#include "brigade/rpc/server_connection.h"

namespace brigade::rpc {
namespace {

// What a server may answer.
constexpr std::size_t kLargestAnswer = std::size_t{1} << 30;

// Of a client's shared memory.
constexpr std::size_t kMostSharedBytes = std::size_t{1} << 30;
// Shorter messages, both ways, are sent: shared memory would not be faster.
constexpr std::size_t kShortMessage = 128 << 10;

[[noreturn]] void refuse_answer() {
  throw Error(ErrorCode::kInternal, "An answer is a header and then its bytes.");
}

void set_call_deadline(grpc::ClientContext& context, MessageClient::Time deadline) {
  constexpr std::chrono::hours kLongest{24};
  const auto left = deadline - std::chrono::steady_clock::now();
  context.set_deadline(std::chrono::system_clock::now() +
                       std::min<std::chrono::steady_clock::duration>(left, kLongest));
}

/// One call of `Large`, whose frames are written and read without protobuf.
///
/// Thread-safety: one thread. All functions return when the call's deadline has passed.
class FrameStream {
 public:
  FrameStream(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context)
      : stub_(channel), call_(stub_.PrepareCall(&context, kLargeMethod, &queue_)) {
    call_->StartCall(this);
    await();
  }
  ~FrameStream() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  FrameStream(const FrameStream&) = delete;
  FrameStream& operator=(const FrameStream&) = delete;

  /// Returns whether the call goes on.
  bool write(const grpc::ByteBuffer& frame) {
    call_->Write(frame, this);
    return await();
  }
  void end_writes() {
    call_->WritesDone(this);
    await();
  }
  bool read(grpc::ByteBuffer& frame) {
    frame.Clear();
    call_->Read(&frame, this);
    return await();
  }
  grpc::Status finish() {
    grpc::Status status;
    call_->Finish(&status, this);
    await();
    return status;
  }

 private:
  static constexpr const char* kLargeMethod = "/brigade.rpc.proto.Messages/Large";

  /// Whether the operation that was started succeeded.
  bool await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  const std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

/// Returns whether the call goes on.
bool send_frames(FrameStream& stream, io::BytePieces message) {
  // Copied: gRPC may have frames of a call that has ended, and their bytes may change then.
  for (MessageFrames frames(std::move(message)); !frames.is_done();)
    if (!stream.write(copied_frame(frames.next()))) return false;
  return true;
}

/// The answer, or nothing if the call ends before it is complete. `memory`: of the request, or
/// null; its user afterwards is the answer.
std::optional<io::SharedBytes> receive_answer(FrameStream& stream, MessageSegments& segments,
                                              std::unique_ptr<MessageSegments::Loan> memory) {
  grpc::ByteBuffer bytes;
  if (!stream.read(bytes)) return std::nullopt;
  const ReceivedFrame first(bytes);
  check_argument(first.is_header(), "An answer begins with its header.");
  if (first.header().is_in_memory()) {
    const std::uint64_t size = first.header().bytes();
    check_argument(memory && size >= 1 && size <= memory->segment().size(),
                   "An answer is in shared memory that does not have it.");
    if (stream.read(bytes)) refuse_answer();
    const auto* const data = reinterpret_cast<const char*>(memory->segment().data());
    return io::SharedBytes{.bytes = {data, static_cast<std::size_t>(size)},
                           .owner = segments.keep(std::move(memory))};
  }
  MessageBuffer answer(first.header().bytes(), kLargestAnswer);
  while (stream.read(bytes)) {
    const ReceivedFrame frame(bytes);
    if (frame.is_header()) refuse_answer();
    frame.copy_to(answer.next(frame.size()));
  }
  if (!answer.is_complete()) return std::nullopt;
  if (memory) segments.keep(std::move(memory));
  return answer.take();
}

class GrpcMessageClient final : public MessageClient {
 public:
  GrpcMessageClient(const std::string& address, const std::optional<cluster::ClusterKey>& key,
                    const MessageClientOptions& options)
      : connection_(address, key), has_shared_memory_(options.shared_memory) {}

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

  io::SharedBytes large_call(int method, const std::string& token, const io::BytePieces& message,
                             Time deadline) override {
    auto memory = memory_for(method, message);
    if (!memory) return transfer(method, token, message, nullptr, deadline);
    try {
      return transfer(method, token, message, std::move(memory), deadline);
    } catch (const MessageError& error) {
      if (error.kind() != kNoSharedMemoryKind) throw;
      if (error.code() != ErrorCode::kResourceExhausted)
        has_shared_memory_ = false;  // the server is on another host, or in another container
    }
    return transfer(method, token, message, nullptr, deadline);
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

  /// Shared memory for a call, or nothing if it is made without.
  std::unique_ptr<MessageSegments::Loan> memory_for(int method, const io::BytePieces& message) {
    if (!has_shared_memory_) return nullptr;
    std::size_t bytes = message.size();
    {
      const concurrency::MutexLock lock(mutex_);
      bytes = std::max(bytes, largest_answers_[method]);
    }
    return bytes > kShortMessage ? segments_.take(bytes) : nullptr;
  }

  /// One call: with the message in `memory`, or without memory in frames.
  io::SharedBytes transfer(int method, const std::string& token, const io::BytePieces& message,
                           std::unique_ptr<MessageSegments::Loan> memory, Time deadline) {
    const auto used = channel(deadline);
    grpc::ClientContext context;
    set_call_deadline(context, deadline);
    const auto registration = closed_.on_cancel([&context] { context.TryCancel(); });
    FrameStream stream(used, context);
    proto::FrameHeader header;
    header.set_method(method);
    header.set_token(token);
    header.set_bytes(message.size());
    if (memory) put(message, memory->segment(), header);
    std::optional<io::SharedBytes> answer;
    try {
      if (stream.write(header_frame(header)) && (memory || send_frames(stream, message)))
        stream.end_writes();
      answer = receive_answer(stream, segments_, std::move(memory));
    } catch (...) {
      context.TryCancel();
      stream.finish();
      throw;
    }
    const grpc::Status status = stream.finish();
    if (!status.ok()) fail(used, status, deadline);
    connection_.note_answer();
    if (!answer)
      throw Error(ErrorCode::kInternal, "A server's answer ended before it was complete.");
    const concurrency::MutexLock lock(mutex_);
    std::size_t& largest = largest_answers_[method];
    largest = std::max(largest, answer->bytes.size());
    return std::move(*answer);
  }

  static void put(const io::BytePieces& message, base::SharedSegment& segment,
                  proto::FrameHeader& header) {
    message.copy_to(reinterpret_cast<char*>(segment.data()));
    const base::SegmentHandle handle = segment.handle();
    proto::SharedMemory& memory = *header.mutable_memory();
    memory.set_pid(handle.pid);
    memory.set_file(handle.descriptor);
    memory.set_first_nonce(handle.nonce[0]);
    memory.set_second_nonce(handle.nonce[1]);
    memory.set_bytes(segment.size());
  }

  ServerConnection connection_;
  const concurrency::CancelToken closed_;
  std::atomic<bool> has_shared_memory_;
  MessageSegments segments_{kMostSharedBytes};
  concurrency::Mutex mutex_;
  std::map<int, std::size_t> largest_answers_ BRIGADE_GUARDED_BY(mutex_);  // bytes, by method
};

}  // namespace

std::unique_ptr<MessageClient> make_message_client(const std::string& address,
                                                   const std::optional<cluster::ClusterKey>& key,
                                                   const MessageClientOptions& options) {
  return with_grpc_threads(
      [&] { return std::make_unique<GrpcMessageClient>(address, key, options); });
}

}  // namespace brigade::rpc
