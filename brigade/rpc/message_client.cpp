#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brigade/base/copy_bytes.h"
#include "brigade/base/error.h"
#include "brigade/base/shared_segment.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/call_deadline.h"
#include "brigade/rpc/grpc_threads.h"
#include "brigade/rpc/large_transfer.h"
#include "brigade/rpc/message_buffer.h"
#include "brigade/rpc/message_frame.h"
#include "brigade/rpc/message_segments.h"
#include "brigade/rpc/message_service.h"
#include "brigade/rpc/proto/message_service.grpc.pb.h"
#include "brigade/rpc/server_connection.h"

namespace brigade::rpc {
namespace {

// Of a client's shared memory: also of messages that are kept.
constexpr std::size_t kMostSharedBytes = std::size_t{2} << 30;
// Shorter messages, both ways, are sent: shared memory would not be faster.
constexpr std::size_t kShortMessage = 128 << 10;

/// What a large call is about, beside its bytes.
struct LargeCallHead {
  int method = 0;
  std::string token;
  std::size_t bytes = 0;
};

proto::FrameHeader header_of(const LargeCallHead& head) {
  proto::FrameHeader header;
  header.set_method(head.method);
  header.set_token(head.token);
  header.set_bytes(head.bytes);
  return header;
}

void describe(const base::SharedSegment& segment, proto::SharedMemory& memory) {
  const base::SegmentHandle handle = segment.handle();
  memory.set_pid(handle.pid);
  memory.set_file(handle.descriptor);
  memory.set_first_nonce(handle.nonce[0]);
  memory.set_second_nonce(handle.nonce[1]);
  memory.set_bytes(segment.size());
}

proto::FrameHeader header_of(const LargeCallHead& head, const base::SharedSegment& segment) {
  proto::FrameHeader header = header_of(head);
  describe(segment, *header.mutable_memory());
  return header;
}

void check_room(std::size_t announced, std::size_t written, std::size_t more) {
  check_argument(more <= announced - written, "A message of ", announced, " bytes gets ", more,
                 " more after ", written, ".");
}

void check_whole_message(std::size_t announced, std::size_t written) {
  check_state(announced == written, "A message of ", announced, " bytes has ", written, ".");
}

class GrpcMessageClient final : public MessageClient {
 public:
  GrpcMessageClient(const std::string& address, const std::optional<cluster::ClusterKey>& key,
                    const MessageClientOptions& options)
      : connection_(address, key), has_shared_memory_(options.shared_memory) {}

  std::string call(int method, const std::string& token, std::string message,
                   Time deadline) override {
    check_argument(message.size() <= kFrameBytes, "A small call's message has up to ", kFrameBytes,
                   " bytes, not ", message.size(), ".");
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
    connection_.record_answer();
    return std::move(*answer.mutable_message());
  }

  io::SharedBytes large_call(int method, const std::string& token, const io::BytePieces& message,
                             Time deadline) override {
    const LargeCallHead head{.method = method, .token = token, .bytes = message.size()};
    if (auto memory = memory_for(head)) {
      message.copy_to(reinterpret_cast<char*>(memory->segment().data()));
      if (auto answer = try_in_memory(head, std::move(memory), deadline)) return *answer;
    }
    LargeTransfer transfer(channel(deadline), closed_, deadline);
    transfer.write(header_frame(header_of(head)));
    // Copied: gRPC may have frames of a call that has ended, and their bytes may change then.
    for (MessageFrames frames(message); !frames.is_done();)
      if (!transfer.write(copied_frame(frames.next()))) break;
    return answer_of(transfer, head.method, nullptr, deadline);
  }

  KeptCall kept_call(int method, const std::string& token, const io::BytePieces& message,
                     Time deadline) override {
    const LargeCallHead head{.method = method, .token = token, .bytes = message.size()};
    if (auto call = try_kept_in_memory(head, message, deadline)) return std::move(*call);
    const std::shared_ptr<char> memory = message_memory(std::max<std::size_t>(head.bytes, 1));
    LargeTransfer transfer(channel(deadline), closed_, deadline);
    bool is_sending = transfer.write(header_frame(header_of(head)));
    char* end = memory.get();
    for (MessageFrames frames(message); !frames.is_done();) {
      const char* const begin = end;
      for (const io::SharedBytes& piece : frames.next())
        end = std::ranges::copy(piece.bytes, end).out;
      const io::SharedBytes frame{.bytes = {begin, end}, .owner = memory};
      is_sending = is_sending && transfer.write(shared_frame({&frame, 1}));
    }
    return {.answer = answer_of(transfer, head.method, nullptr, deadline),
            .message = {.bytes = {memory.get(), head.bytes}, .owner = memory}};
  }

  std::unique_ptr<OpenCall> begin_large_call(int method, const std::string& token,
                                             std::size_t bytes, Time deadline) override {
    check_argument(bytes > 0, "A large call's message has no bytes.");
    LargeCallHead head{.method = method, .token = token, .bytes = bytes};
    if (auto memory = memory_for(head))
      return std::make_unique<CallInMemory>(*this, std::move(head), std::move(memory), deadline);
    return std::make_unique<CallInFrames>(*this, head, deadline);
  }

  void close() override { closed_.cancel(); }

 private:
  void check_open() const {
    if (!closed_.is_cancelled()) return;
    throw Error(ErrorCode::kUnavailable, "The connection to the server at ", connection_.address(),
                " was closed.");
  }

  [[noreturn]] void fail(const std::shared_ptr<grpc::Channel>& used, const grpc::Status& status,
                         Time deadline) {
    check_open();
    connection_.fail(used, status, deadline);
  }

  std::shared_ptr<grpc::Channel> channel(Time deadline) {
    check_open();
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorCode::kDeadlineExceeded, "The deadline of a call to the server at ",
                  connection_.address(), " had passed before it began.");
    }
    return connection_.channel(deadline);
  }

  /// Shared memory for a call, or nothing if it is made without.
  std::unique_ptr<MessageSegments::Loan> memory_for(const LargeCallHead& head) {
    if (!has_shared_memory_) return nullptr;
    std::size_t bytes = head.bytes;
    {
      const concurrency::MutexLock lock(mutex_);
      bytes = std::max(bytes, largest_answers_[head.method]);
    }
    return bytes > kShortMessage ? segments_.take(bytes) : nullptr;
  }

  /// The answer to a message that is in `memory`. Nothing if the server does not take that: then it
  /// has done nothing.
  std::optional<io::SharedBytes> try_in_memory(const LargeCallHead& head,
                                               std::unique_ptr<MessageSegments::Loan> memory,
                                               Time deadline) {
    const proto::FrameHeader header = header_of(head, memory->segment());
    return try_in_memory(header, std::move(memory), deadline);
  }

  /// A message in memory that the answer leaves as it is. Nothing as `try_in_memory`, and if there
  /// is no memory for both.
  std::optional<KeptCall> try_kept_in_memory(const LargeCallHead& head,
                                             const io::BytePieces& message, Time deadline) {
    auto memory = memory_for(head);
    auto answer_memory = memory ? memory_for(head) : nullptr;
    if (!answer_memory) return std::nullopt;
    message.copy_to(reinterpret_cast<char*>(memory->segment().data()));
    proto::FrameHeader header = header_of(head, memory->segment());
    describe(answer_memory->segment(), *header.mutable_answer_memory());
    auto answer = try_in_memory(header, std::move(answer_memory), deadline);
    if (!answer) return std::nullopt;
    const auto* const sent = reinterpret_cast<const char*>(memory->segment().data());
    return KeptCall{
        .answer = std::move(*answer),
        .message = {.bytes = {sent, head.bytes}, .owner = segments_.keep(std::move(memory))}};
  }

  /// `memory`: for the answer.
  std::optional<io::SharedBytes> try_in_memory(const proto::FrameHeader& header,
                                               std::unique_ptr<MessageSegments::Loan> memory,
                                               Time deadline) {
    try {
      LargeTransfer transfer(channel(deadline), closed_, deadline);
      transfer.write(header_frame(header));
      return answer_of(transfer, header.method(), std::move(memory), deadline);
    } catch (const MessageError& error) {
      if (error.kind() != kNoSharedMemoryKind) throw;
      if (error.code() != ErrorCode::kResourceExhausted)
        has_shared_memory_ = false;  // the server is on another host, or in another container
    }
    return std::nullopt;
  }

  /// The answer to a message that was written. `memory`: for the answer, or null.
  io::SharedBytes answer_of(LargeTransfer& transfer, int method,
                            std::unique_ptr<MessageSegments::Loan> memory, Time deadline) {
    std::optional<io::SharedBytes> answer = transfer.receive(segments_, std::move(memory));
    const grpc::Status status = transfer.finish();
    if (!status.ok()) fail(transfer.channel(), status, deadline);
    connection_.record_answer();
    if (!answer)
      throw Error(ErrorCode::kInternal, "A server's answer ended before it was complete.");
    const concurrency::MutexLock lock(mutex_);
    std::size_t& largest = largest_answers_[method];
    largest = std::max(largest, answer->bytes.size());
    return std::move(*answer);
  }

  /// A message that is written to shared memory.
  class CallInMemory final : public OpenCall {
   public:
    CallInMemory(GrpcMessageClient& client, LargeCallHead head,
                 std::unique_ptr<MessageSegments::Loan> memory, Time deadline)
        : client_(client),
          head_(std::move(head)),
          memory_(std::move(memory)),
          deadline_(deadline) {}
    ~CallInMemory() override {
      try {
        if (memory_) client_.segments_.keep(std::move(memory_));  // no listener has received it
      } catch (const std::bad_alloc&) {
        // Then it is freed.
      }
    }
    CallInMemory(const CallInMemory&) = delete;
    CallInMemory& operator=(const CallInMemory&) = delete;

    void write(std::string_view bytes) override {
      check_room(head_.bytes, written_, bytes.size());
      base::copy_part_bytes(memory_->segment().data() + written_, bytes.data(), bytes.size(),
                            head_.bytes);
      written_ += bytes.size();
    }
    io::SharedBytes finish() override {
      check_whole_message(head_.bytes, written_);
      if (auto answer = client_.try_in_memory(head_, std::move(memory_), deadline_)) return *answer;
      throw Error(ErrorCode::kUnavailable, "The server at ", client_.connection_.address(),
                  " does not take this message in shared memory.");
    }

   private:
    GrpcMessageClient& client_;
    const LargeCallHead head_;
    std::unique_ptr<MessageSegments::Loan> memory_;
    const Time deadline_;
    std::size_t written_ = 0;
  };

  /// A message that is sent as it is written.
  class CallInFrames final : public OpenCall {
   public:
    CallInFrames(GrpcMessageClient& client, const LargeCallHead& head, Time deadline)
        : client_(client),
          method_(head.method),
          bytes_(head.bytes),
          deadline_(deadline),
          transfer_(client.channel(deadline), client.closed_, deadline) {
      proto::FrameHeader header = header_of(head);
      header.set_is_open(true);
      transfer_.write(header_frame(header));
    }

    void write(std::string_view bytes) override {
      check_room(bytes_, written_, bytes.size());
      written_ += bytes.size();
      // The last frame waits for `finish`: with it the server begins to work.
      while (begun_.size() + bytes.size() >= kFrameBytes && sent_ + kFrameBytes < bytes_) {
        const std::size_t taken = kFrameBytes - begun_.size();
        send(bytes.substr(0, taken));
        bytes.remove_prefix(taken);
      }
      begun_.append(bytes);
    }
    io::SharedBytes finish() override {
      check_whole_message(bytes_, written_);
      if (!begun_.empty()) send({});
      return client_.answer_of(transfer_, method_, nullptr, deadline_);
    }

   private:
    /// A frame of what has begun and `rest`.
    void send(std::string_view rest) {
      std::vector<io::SharedBytes> pieces;
      for (const std::string_view bytes : {std::string_view(begun_), rest})
        if (!bytes.empty()) pieces.push_back({.bytes = bytes, .owner = nullptr});
      transfer_.write(copied_frame(pieces));
      sent_ += begun_.size() + rest.size();
      begun_.clear();
    }

    GrpcMessageClient& client_;
    const int method_;
    const std::size_t bytes_;
    const Time deadline_;
    LargeTransfer transfer_;
    std::string begun_;  // the next frame
    std::size_t written_ = 0;
    std::size_t sent_ = 0;
  };

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
