#pragma once

#include <atomic>
#include <chrono>
#include <optional>

namespace brigade::ps {

/// Since when a thread has been in a call of a client, for another thread that decides how long the
/// call may take: then a step that computes for long is distinguished from one that waits for
/// servers or other workers.
///
/// Thread-safety: calls by one thread at a time; `in_call_since` from any thread.
class CallClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A call that lasts as long as this object.
  class Call {
   public:
    /// Borrows `clock`, which may be null.
    explicit Call(CallClock* clock) : clock_(clock) {
      if (clock_ != nullptr)
        clock_->since_.store(std::chrono::steady_clock::now().time_since_epoch().count());
    }
    ~Call() {
      if (clock_ != nullptr) clock_->since_.store(kNone);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallClock* const clock_;
  };

  /// When the call in progress began; nothing if there is none.
  std::optional<Time> in_call_since() const {
    const Time::rep since = since_.load();
    if (since == kNone) return std::nullopt;
    return Time(Time::duration(since));
  }

 private:
  static constexpr Time::rep kNone = -1;
  std::atomic<Time::rep> since_ = kNone;
};

}  // namespace brigade::ps
