#include "brigade/rpc/large_call.h"

#include <algorithm>
#include <utility>

#include "brigade/base/copy_bytes.h"
#include "brigade/base/error.h"
#include "brigade/rpc/message_errors.h"

namespace brigade::rpc {
namespace {

// A caller that sends or takes frames is there: its lease is renewed this often.
constexpr std::chrono::seconds kAdmitAgain{1};
// A caller sends the header when it makes the call.
constexpr std::chrono::milliseconds kArrivalTime{5000};

/// Refuses a caller's shared memory before anything was done: it then sends its message.
[[noreturn]] void refuse_memory(const Error& why) {
  const bool is_full = why.code() == ErrorCode::kResourceExhausted;
  throw MessageError(is_full ? ErrorCode::kResourceExhausted : ErrorCode::kFailedPrecondition,
                     why.what(), std::string(kNoSharedMemoryKind));
}

CallersMemory callers_memory_of(const proto::SharedMemory& memory) {
  return {.handle = {.pid = memory.pid(),
                     .descriptor = memory.file(),
                     .nonce = {memory.first_nonce(), memory.second_nonce()}},
          .bytes = static_cast<std::size_t>(memory.bytes())};
}

}  // namespace

LargeCall::LargeCall(CallEnvironment& environment, grpc::CallbackServerContext& context)
    : environment_(environment), context_(context), deadline_(deadline_of(context)) {}

std::shared_ptr<LargeCall> LargeCall::open(CallEnvironment& environment,
                                           grpc::CallbackServerContext& context) {
  auto call = std::make_shared<LargeCall>(environment, context);
  call->self_ = call;
  return call;
}

void LargeCall::start() {
  const grpc::Status status = status_after([&] { place_ = environment_.admit_arrival(); });
  if (!status.ok()) return finish(status);
  read_next();
}

void LargeCall::end_if_silent(Time now, std::chrono::milliseconds patience) {
  Phase phase = Phase::kWorking;
  {
    const concurrency::MutexLock lock(mutex_);
    phase = phase_;
    if (phase == Phase::kArriving) patience = std::min(patience, kArrivalTime);
    if (now - progress_ < patience) return;
  }
  if (phase == Phase::kArriving || phase == Phase::kReceiving) {
    finish(to_status(Error(ErrorCode::kDeadlineExceeded,
                           "The next part of the message did not come within ", patience.count(),
                           " ms.")));
  } else if (phase == Phase::kReplying) {
    start_operation([&] { context_.TryCancel(); });
  }
}

void LargeCall::end_unless_complete() {
  {
    const concurrency::MutexLock lock(mutex_);
    if (phase_ != Phase::kArriving && phase_ != Phase::kReceiving) return;
  }
  finish(status_after([&] { environment_.check_open(); }));
}

void LargeCall::OnReadDone(bool ok) {
  if (!ok) {
    return finish(
        to_status(Error(ErrorCode::kInvalidArgument, "The message ended before it was complete.")));
  }
  const grpc::Status status = status_after([&] { take_frame(); });
  if (!status.ok()) finish(status);
}

void LargeCall::take_frame() {
  const ReceivedFrame frame(incoming_);
  incoming_.Clear();
  if (!request_) {
    check_argument(frame.is_header(), "A message begins with its header.");
    return begin_message(frame.header());
  }
  check_argument(!frame.is_header(), "After its header a message has nothing but bytes.");
  frame.copy_to(request_->next(frame.size()));
  enter(Phase::kReceiving);
  admit_again();
  if (!request_->is_complete()) return read_next();
  work();
}

void LargeCall::begin_message(const proto::FrameHeader& header) {
  check_token_size(header.token().size());
  method_ = header.method();
  token_ = header.token();
  is_open_ = header.is_open();
  request_.emplace(header.bytes(), environment_.max_message_bytes);
  if (header.has_memory()) {
    memory_ = callers_memory_of(header.memory());
    check_argument(memory_->bytes >= header.bytes(), "A message of ", header.bytes(),
                   " bytes is in shared memory of ", memory_->bytes, ".");
    if (header.has_answer_memory()) answer_memory_ = callers_memory_of(header.answer_memory());
  }
  enter(Phase::kWorking);
  environment_.quick.submit([self = shared_from_this()] { self->admit(); });
}

void LargeCall::admit() {
  const grpc::Status status = status_after([&] {
    environment_.check_open();
    environment_.threads_of(method_);  // refuses a method that does not exist
    environment_.service.admit(token_, deadline_);
    place_ = environment_.admit_call();
    if (is_open_) open_bytes_ = environment_.reserve_open_message(request_->announced());
    request_bytes_ = environment_.reserve_message(request_->announced());
  });
  if (!status.ok()) return finish(status);
  admitted_ = std::chrono::steady_clock::now();
  if (memory_) return work();
  enter(Phase::kReceiving);
  read_next();
}

void LargeCall::work() {
  enter(Phase::kWorking);
  open_bytes_.reset();
  environment_.threads_of(method_).submit([self = shared_from_this()] { self->answer(); });
}

void LargeCall::admit_again() {
  const Time now = std::chrono::steady_clock::now();
  if (now - admitted_ < kAdmitAgain) return;
  admitted_ = now;
  environment_.quick.submit([self = shared_from_this()] {
    // A caller that may no longer call learns it from its call.
    status_after([&] { self->environment_.service.admit(self->token_, self->deadline_); });
  });
}

void LargeCall::answer() {
  const grpc::Status status = status_after([&] {
    make_reply();
    outgoing_ = header_frame(reply_header_);
  });
  if (!status.ok()) return finish(status);
  write_next();
}

/// The whole request, which nobody can change.
io::SharedBytes LargeCall::take_request() {
  if (!memory_) return request_->take();
  if (!environment_.takes_shared_memory)
    refuse_memory(Error(ErrorCode::kUnavailable, "The server takes no shared memory."));
  const auto segment = open_segments();
  const std::size_t size = request_->announced();
  std::shared_ptr<char> copy = message_memory(size);
  base::copy_part_bytes(copy.get(), segment->data(), size, size);
  return {.bytes = {copy.get(), size}, .owner = std::move(copy)};
}

/// That of the request.
std::shared_ptr<const base::SharedSegment> LargeCall::open_segments() {
  try {
    const auto segment = environment_.segments.open(memory_->handle, memory_->bytes);
    answer_segment_ =
        answer_memory_ ? environment_.segments.open(answer_memory_->handle, answer_memory_->bytes)
                       : segment;
    return segment;
  } catch (const Error& error) {
    refuse_memory(error);
  }
}

/// The caller's, once its request was copied.
AnswerMemory LargeCall::answer_memory() const {
  if (!answer_segment_) return {};
  return {.bytes = {reinterpret_cast<char*>(answer_segment_->data()), answer_segment_->size()},
          .owner = answer_segment_};
}

void LargeCall::make_reply() {
  const auto check = [this] {
    environment_.check_open();
    if (is_cancelled_) throw Error(ErrorCode::kCancelled, "The caller is gone.");
  };
  check();
  io::BytePieces reply = environment_.service.answer({.method = method_,
                                                      .token = token_,
                                                      .message = take_request(),
                                                      .deadline = deadline_,
                                                      .check = check,
                                                      .is_large = true,
                                                      .answer_memory = answer_memory()});
  check_argument(reply.size() <= environment_.max_message_bytes, "The answer has ", reply.size(),
                 " bytes, more than the ", environment_.max_message_bytes,
                 " of a message (max_message_bytes): ask for less.");
  request_bytes_.reset();
  if (!environment_.service.shares_answers(method_))
    reply_bytes_ = environment_.reserve_message(reply.size());
  place_reply(std::move(reply));
}

/// Into the caller's memory if there is room, else into frames.
void LargeCall::place_reply(io::BytePieces reply) {
  reply_header_.set_bytes(reply.size());
  if (!answer_segment_ || reply.size() > answer_segment_->size()) {
    reply_.emplace(std::move(reply));
    return;
  }
  reply.copy_to(reinterpret_cast<char*>(answer_segment_->data()));
  answer_segment_.reset();
  reply_header_.set_is_in_memory(true);
  reply_.emplace(io::BytePieces());
}

void LargeCall::OnWriteDone(bool ok) {
  if (!ok) return finish(to_status(Error(ErrorCode::kCancelled, "The caller is gone.")));
  if (reply_->is_done()) return finish(grpc::Status::OK);
  admit_again();
  const grpc::Status status = status_after([&] { outgoing_ = shared_frame(reply_->next()); });
  if (!status.ok()) return finish(status);
  write_next();
}

void LargeCall::write_next() {
  enter(Phase::kReplying);
  start_operation([&] { StartWrite(&outgoing_); });
}

void LargeCall::read_next() {
  start_operation([&] { StartRead(&incoming_); });
}

void LargeCall::enter(Phase phase) {
  const concurrency::MutexLock lock(mutex_);
  phase_ = phase;
  progress_ = std::chrono::steady_clock::now();
}

void LargeCall::start_operation(const std::function<void()>& start) {
  const auto self = shared_from_this();
  {
    const concurrency::MutexLock lock(mutex_);
    if (ending_) return;
    ++starting_;
  }
  start();
  std::optional<grpc::Status> status;
  {
    const concurrency::MutexLock lock(mutex_);
    if (--starting_ == 0) status = ending_;
  }
  if (status) Finish(*status);
}

void LargeCall::finish(const grpc::Status& status) {
  {
    const concurrency::MutexLock lock(mutex_);
    if (ending_) return;
    ending_ = status;
    if (starting_ > 0) return;
  }
  Finish(status);
}

void LargeCall::OnDone() {
  const auto last_reference = std::move(self_);
}

}  // namespace brigade::rpc
