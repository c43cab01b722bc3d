#include "brigade/rpc/large_transfer.h"

#include <cstdint>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/rpc/call_deadline.h"
#include "brigade/rpc/message_buffer.h"
#include "brigade/rpc/message_frame.h"

namespace brigade::rpc {
namespace {

constexpr const char* kLargeMethod = "/brigade.rpc.proto.Messages/Large";
// What a server may answer.
constexpr std::size_t kLargestAnswer = std::size_t{1} << 30;

[[noreturn]] void refuse_answer() {
  throw Error(ErrorCode::kInternal, "An answer is a header and then its bytes.");
}

}  // namespace

LargeTransfer::LargeTransfer(std::shared_ptr<grpc::Channel> channel,
                             const concurrency::CancelToken& closed,
                             std::chrono::steady_clock::time_point deadline)
    : channel_(std::move(channel)),
      cancel_(closed.on_cancel([this] { context_.TryCancel(); })),
      stub_(channel_) {
  set_call_deadline(context_, deadline);
  call_ = stub_.PrepareCall(&context_, kLargeMethod, &queue_);
  call_->StartCall(this);
  await();
}

LargeTransfer::~LargeTransfer() {
  if (!is_finished_) {
    context_.TryCancel();
    finish();
  }
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool LargeTransfer::write(const grpc::ByteBuffer& frame) {
  if (!is_open_) return false;
  call_->Write(frame, this);
  is_open_ = await();
  return is_open_;
}

bool LargeTransfer::read(grpc::ByteBuffer& frame) {
  frame.Clear();
  call_->Read(&frame, this);
  return await();
}

std::optional<io::SharedBytes> LargeTransfer::receive(
    MessageSegments& segments, std::unique_ptr<MessageSegments::Loan> memory) {
  if (is_open_) {
    call_->WritesDone(this);
    await();
  }
  grpc::ByteBuffer bytes;
  if (!read(bytes)) return std::nullopt;
  const ReceivedFrame first(bytes);
  check_argument(first.is_header(), "An answer begins with its header.");
  if (first.header().is_in_memory()) {
    const std::uint64_t size = first.header().bytes();
    check_argument(memory && size >= 1 && size <= memory->segment().size(),
                   "An answer is in shared memory that does not have it.");
    if (read(bytes)) refuse_answer();
    const auto* const data = reinterpret_cast<const char*>(memory->segment().data());
    return io::SharedBytes{.bytes = {data, static_cast<std::size_t>(size)},
                           .owner = segments.keep(std::move(memory))};
  }
  MessageBuffer answer(first.header().bytes(), kLargestAnswer);
  while (read(bytes)) {
    const ReceivedFrame frame(bytes);
    if (frame.is_header()) refuse_answer();
    frame.copy_to(answer.next(frame.size()));
  }
  if (!answer.is_complete()) return std::nullopt;
  if (memory) segments.keep(std::move(memory));
  return answer.take();
}

grpc::Status LargeTransfer::finish() {
  is_finished_ = true;
  grpc::Status status;
  call_->Finish(&status, this);
  await();
  return status;
}

bool LargeTransfer::await() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

}  // namespace brigade::rpc
