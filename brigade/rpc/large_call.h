#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "brigade/base/shared_segment.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/call_environment.h"
#include "brigade/rpc/message_buffer.h"
#include "brigade/rpc/message_frame.h"

namespace brigade::rpc {

/// A segment that a caller has made.
struct CallersMemory {
  base::SegmentHandle handle;
  std::size_t bytes = 0;
};

/// The server side of one call with large messages: receives the request in frames, has it worked
/// on by a thread of the environment, and sends the answer in frames. A caller on this host may
/// have both in its shared memory instead: the request is copied before anything is read of it.
///
/// The token of the first frame is checked before anything else is received, and no memory is taken
/// for what the frame announces before it has arrived.
///
/// gRPC calls the On... functions; the object lives until the last of them (OnDone), or as long as
/// someone holds it.
class LargeCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                        public std::enable_shared_from_this<LargeCall> {
 public:
  using Time = MessageService::Time;

  static std::shared_ptr<LargeCall> open(CallEnvironment& environment,
                                         grpc::CallbackServerContext& context);
  /// Begins to receive.
  void start();

  /// Ends the call if the next frame has not arrived, or has not been taken, for `patience`.
  void end_if_silent(Time now, std::chrono::milliseconds patience) BRIGADE_EXCLUDES(mutex_);
  /// Ends the call with kUnavailable if its request is not complete.
  void end_unless_complete() BRIGADE_EXCLUDES(mutex_);

  LargeCall(CallEnvironment& environment, grpc::CallbackServerContext& context);

 private:
  enum class Phase { kArriving, kReceiving, kWorking, kReplying };

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { is_cancelled_ = true; }
  void OnDone() override;

  void take_frame();
  void begin_message(const proto::FrameHeader& header);
  void admit();
  void work();
  void admit_again();
  void answer();
  io::SharedBytes take_request();
  std::shared_ptr<const base::SharedSegment> open_segments();
  AnswerMemory answer_memory() const;
  void make_reply();
  void place_reply(io::BytePieces reply);
  void write_next();
  void read_next();

  void enter(Phase phase) BRIGADE_EXCLUDES(mutex_);
  /// Calls `start`, which starts an operation of gRPC, unless the call has ended.
  void start_operation(const std::function<void()>& start) BRIGADE_EXCLUDES(mutex_);
  /// Only the first status counts.
  void finish(const grpc::Status& status) BRIGADE_EXCLUDES(mutex_);

  CallEnvironment& environment_;
  grpc::CallbackServerContext& context_;  // valid until Finish
  const Time deadline_;
  std::shared_ptr<LargeCall> self_;
  std::atomic<bool> is_cancelled_{false};  // the caller is gone, or has given up

  // Used by one operation or task at a time; each starts the next.
  std::optional<Budget::Part> place_;
  std::optional<Budget::Part> request_bytes_;
  std::optional<Budget::Part> open_bytes_;  // until the request is whole
  std::optional<Budget::Part> reply_bytes_;
  grpc::ByteBuffer incoming_;
  int method_ = 0;
  std::string token_;
  bool is_open_ = false;  // the request is written while it comes into being
  Time admitted_;
  std::optional<CallersMemory> memory_;         // the request is there; unset: in frames
  std::optional<CallersMemory> answer_memory_;  // for the answer; unset: as memory_
  std::shared_ptr<base::SharedSegment> answer_segment_;
  std::optional<MessageBuffer> request_;
  proto::FrameHeader reply_header_;
  std::optional<MessageFrames> reply_;  // what is still to be sent
  grpc::ByteBuffer outgoing_;

  concurrency::Mutex mutex_;
  Phase phase_ BRIGADE_GUARDED_BY(mutex_) = Phase::kArriving;
  Time progress_ BRIGADE_GUARDED_BY(mutex_) = std::chrono::steady_clock::now();
  // Operations that are being started. Finish has to wait for them: after it the object may end.
  int starting_ BRIGADE_GUARDED_BY(mutex_) = 0;
  std::optional<grpc::Status> ending_ BRIGADE_GUARDED_BY(mutex_);  // never changes once it is set
};

}  // namespace brigade::rpc
