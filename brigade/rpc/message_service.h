#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/io/byte_pieces.h"

/// Calls whose arguments and results are messages of bytes, of any size, from one process to
/// another. Who calls is proved by a token, which the service gives out and checks.
namespace brigade::rpc {

/// An error whose type is more than its code: `kind` names it for the other side.
class MessageError : public Error {
 public:
  MessageError(ErrorCode code, const std::string& message, std::string kind)
      : Error(code, message), kind_(std::move(kind)) {}
  const std::string& kind() const noexcept { return kind_; }

 private:
  std::string kind_;
};

/// The kind of a MessageError, kResourceExhausted, of a listener that has too much in progress at
/// the moment: the same call succeeds later.
inline constexpr std::string_view kBusyKind = "busy";

/// The kind of a MessageError of a listener that cannot use the shared memory of a caller: nothing
/// was done, and the client sends the message itself. kFailedPrecondition, or kResourceExhausted if
/// it has no room for it at the moment, but may have for the next call.
inline constexpr std::string_view kNoSharedMemoryKind = "no-shared-memory";

/// Which threads make a call.
enum class CallThreads {
  kQuick,   ///< it takes a lock at most
  kWork,    ///< it computes, or waits for the disk
  kWaiting  ///< it waits for other callers
};

/// Memory of a caller for an answer, with what keeps it there. The caller may change it at any
/// time.
struct AnswerMemory {
  std::span<char> bytes;
  std::shared_ptr<const void> owner;
};

/// A call that a listener has received.
struct MessageCall {
  int method = 0;
  std::string token;
  io::SharedBytes message;  ///< of a large call aligned for tensors; nobody else has it
  std::chrono::steady_clock::time_point deadline;
  /// Throws once the caller is gone or the listener ends. A call that waits calls it repeatedly.
  std::function<void()> check;
  bool is_large = false;  ///< made by `MessageClient::large_call`: `admit` has let the caller in
  /// Where the answer will be, if it fits and is not sent. Pieces of the answer that the service
  /// has written to their places there are not copied.
  AnswerMemory answer_memory = {};
};

/// What a listener serves.
///
/// Thread-safety: all functions from any thread.
class MessageService {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~MessageService() = default;
  /// Throws kInvalidArgument for a method that it does not have. Must not block.
  virtual CallThreads threads_of(int method) const = 0;
  /// Whether the method's answers are in memory that the service keeps anyhow, so that they need no
  /// room in `MessageListenerOptions::max_buffered_bytes`: calls that have this room may wait for
  /// the one that is answered. Must not block.
  virtual bool shares_answers(int method) const {
    (void)method;
    return false;
  }
  /// Called before a large message is received, and about every second while parts of it, or of its
  /// answer, arrive. Throws if the caller may not send one; only the first call counts. May take a
  /// lock, and nothing longer.
  virtual void admit(const std::string& token, Time deadline) = 0;
  /// Returns the answer, whose bytes must not change any more. What it throws is thrown to the
  /// caller: an Error with its code, a MessageError with its kind.
  virtual io::BytePieces answer(MessageCall call) = 0;
};

/// Options of `listen_for_messages`.
struct MessageListenerOptions {
  /// "host:port"; port 0: any.
  std::string address = "127.0.0.1:0";
  std::optional<cluster::ClusterKey> key = std::nullopt;
  /// The number of processes that call. Limits the calls in progress, and those that wait, to a few
  /// for each.
  std::size_t callers = 1;
  /// The largest message, in both directions.
  std::size_t max_message_bytes = std::size_t{1} << 30;
  /// All messages together that are being received or sent; those of an OpenCall that are not whole
  /// have half of it.
  std::size_t max_buffered_bytes = std::size_t{2} << 30;
  /// For CallThreads::kWork.
  std::size_t threads = 1;
  /// The call ends if the next part of its message, up to 1 MiB, does not arrive, or is not
  /// received by the caller, for this long.
  std::chrono::milliseconds silence = std::chrono::seconds(10);
  /// Whether callers on this host may pass large messages in shared memory. The listener copies
  /// them before it looks at them. It keeps callers' memory mapped, at most `max_buffered_bytes`,
  /// until they have not used it for about 10 seconds.
  bool shared_memory = true;
};

/// What a listener has in progress.
struct MessageLoad {
  std::size_t buffered_bytes = 0;      ///< of messages that are being received or sent
  std::size_t max_buffered_bytes = 0;  ///< `MessageListenerOptions::max_buffered_bytes`
  std::size_t calls = 0;
  std::size_t waits = 0;  ///< those of `calls` that wait for other callers
};

/// Serves a MessageService at an address until it is destroyed. The destructor ends the calls; it
/// waits for those that the service works on.
class MessageListener {
 public:
  virtual ~MessageListener() = default;
  /// "host:port", with the port that it has.
  virtual std::string address() const = 0;
  /// At this moment. From any thread.
  virtual MessageLoad load() const = 0;
};

/// `service` must outlive the listener. Throws kInvalidArgument for options out of range,
/// kPermissionDenied beyond loopback without a key, kUnavailable, naming the address, if it cannot
/// listen, kResourceExhausted if there are too few threads, kUnimplemented without gRPC.
std::unique_ptr<MessageListener> listen_for_messages(MessageService& service,
                                                     const MessageListenerOptions& options);

/// A large call whose message is sent while it is being made. The service sees the message when it
/// is complete: if this is destroyed before `finish`, or the connection fails, nothing was
/// done.
///
/// Thread-safety: one thread at a time. Its client outlives it.
class OpenCall {
 public:
  virtual ~OpenCall() = default;
  /// The next bytes of the message, which may change afterwards. Waits while the network takes no
  /// more, until the call's deadline. Throws kInvalidArgument for more bytes than were announced. A
  /// call that has failed takes them, too: `finish` throws its error.
  virtual void write(std::string_view bytes) = 0;
  /// The answer to the message, of which all bytes were written. Throws as `large_call`, and
  /// kUnavailable as well if nothing was done because the listener takes no shared memory of this
  /// client: a call that is made then is sent.
  virtual io::SharedBytes finish() = 0;
};

/// A large call that was answered, and its message as it was sent.
struct KeptCall {
  io::SharedBytes answer;
  io::SharedBytes message;  ///< nobody changes its bytes as long as somebody has them
};

/// A connection to a listener, made at the first call and again after it was lost.
///
/// All calls throw what the service threw; kUnavailable if the connection failed and
/// kDeadlineExceeded at `deadline`, naming the address (the call may have been made);
/// kPermissionDenied if the listener has another key.
///
/// Thread-safety: all functions from any thread.
class MessageClient {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~MessageClient() = default;
  /// For messages of less than 1 MiB, both ways.
  virtual std::string call(int method, const std::string& token, std::string message,
                           Time deadline) = 0;
  /// To a listener on this host the message travels in shared memory, if that is allowed and it is
  /// long, and the answer, too. The message's bytes may change once the call has ended.
  virtual io::SharedBytes large_call(int method, const std::string& token,
                                     const io::BytePieces& message, Time deadline) = 0;
  /// The same for a caller that needs the message after the call: it is copied once, to be sent and
  /// to be kept.
  virtual KeptCall kept_call(int method, const std::string& token, const io::BytePieces& message,
                             Time deadline) = 0;
  /// Begins a large call with a message of `bytes` bytes, at least one, that is written later. In
  /// shared memory nothing is sent until `finish`; a listener that gets frames ends the call if
  /// the next does not arrive within `MessageListenerOptions::silence`, and refuses it, as busy, if
  /// such calls have half of its room (`max_buffered_bytes`).
  virtual std::unique_ptr<OpenCall> begin_large_call(int method, const std::string& token,
                                                     std::size_t bytes, Time deadline) = 0;
  /// Ends the calls in progress, which then throw kUnavailable; so do later ones.
  virtual void close() = 0;
};

/// Options of a client of a message service.
struct MessageClientOptions {
  /// Whether large messages to a listener on this host travel in shared memory.
  bool shared_memory = true;
};

/// Throws kPermissionDenied beyond loopback without a key, kResourceExhausted if there are too few
/// threads, kUnimplemented without gRPC.
std::unique_ptr<MessageClient> make_message_client(const std::string& address,
                                                   const std::optional<cluster::ClusterKey>& key,
                                                   const MessageClientOptions& options = {});

}  // namespace brigade::rpc
