#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/rpc/message_buffer.h"
#include "brigade/rpc/message_service.h"

/// A service that answers with what it got, and calls of it.
namespace brigade::rpc::testing {

/// The methods of `EchoService`.
enum Method { kEcho = 1, kFail, kFailWithKind, kHang, kWait, kLengthen, kShare };

using MessageTime = MessageService::Time;

inline MessageTime within(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

/// Answers with what it got.
class EchoService final : public MessageService {
 public:
  CallThreads threads_of(int method) const override {
    check_argument(method >= kEcho && method <= kShare, "There is no such method.");
    return method == kWait ? CallThreads::kWaiting : CallThreads::kWork;
  }

  bool shares_answers(int method) const override { return method == kShare; }

  void admit(const std::string& token, Time) override {
    ++admissions;
    if (token != "member")
      throw MessageError(ErrorCode::kUnavailable, "Who are you?", "not-member");
  }

  io::BytePieces answer(MessageCall call) override {
    ++calls;
    if (call.method == kFail) throw Error(ErrorCode::kAlreadyExists, std::string(20000, 'x'));
    if (call.method == kFailWithKind)
      throw MessageError(ErrorCode::kUnavailable, "Join again.", "a-kind");
    if (call.method == kHang || call.method == kWait) wait(call);
    if (call.method == kLengthen || call.method == kShare) return std::string(3 * kFrameBytes, 'l');
    io::BytePieces answer;
    answer.append(std::move(call.message));
    return answer;
  }

  /// Lets kHang and kWait end.
  void release() {
    const concurrency::MutexLock lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }

  std::atomic<int> admissions{0};
  std::atomic<int> calls{0};

 private:
  void wait(const MessageCall& call) {
    for (;;) {
      call.check();
      const concurrency::MutexLock lock(mutex_);
      if (is_released_) return;
      changed_.wait_until(mutex_, within(std::chrono::milliseconds(20)));
    }
  }

  concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  bool is_released_ BRIGADE_GUARDED_BY(mutex_) = false;
};

/// What the call throws; kInternal if it succeeds.
inline Error error_of_call(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "the call succeeded");
}

/// The answer of kEcho to a large call of a member.
inline std::string large(MessageClient& client, const std::string& message) {
  return std::string(
      client.large_call(kEcho, "member", message, within(std::chrono::seconds(60))).bytes);
}

/// Bytes of which no two pieces are alike.
inline std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 4096);
  return text;
}

/// How many segments of shared memory this process has open.
inline std::size_t open_segments() {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(each.path(), gone);
    if (!gone && target.string().starts_with("/memfd:brigade")) ++count;
  }
  return count;
}

}  // namespace brigade::rpc::testing
