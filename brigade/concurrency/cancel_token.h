#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

namespace brigade::concurrency {

/// Keeps a callback registered with a `CancelToken`; destroying it removes the callback. If the
/// callback is running on another thread, the destructor waits until it returns. So never destroy a
/// registration while holding a mutex that its callback takes.
///
/// Thread-safety: one thread at a time.
class [[nodiscard]] CancelRegistration {
 public:
  CancelRegistration() = default;

 private:
  friend class CancelToken;
  using Callback = std::stop_callback<std::function<void()>>;
  explicit CancelRegistration(std::unique_ptr<Callback> callback)
      : callback_(std::move(callback)) {}
  std::unique_ptr<Callback> callback_;
};

/// A request to stop, shared by all copies of the token. Any holder can cancel it; the code that
/// does the work polls it or registers a callback. Cancelling cannot be undone. Every wait in
/// Brigade without a deadline takes a token.
///
/// A default-constructed token is a new one that is not cancelled.
///
/// Thread-safety: all functions from any thread.
class CancelToken {
 public:
  // None is inline: g++ 12 takes inlined copies of a std::stop_source for uninitialized.
  CancelToken();
  CancelToken(const CancelToken& other) noexcept;
  CancelToken& operator=(const CancelToken& other) noexcept;
  ~CancelToken();

  /// Asks for the work to stop. The first call runs the registered callbacks, on this thread,
  /// before it returns; later calls do nothing. Safe in a callback, not in a signal handler.
  void cancel() const { source_.request_stop(); }

  bool is_cancelled() const { return source_.stop_requested(); }

  /// Throws kCancelled, naming `what`, if the token is cancelled.
  void throw_if_cancelled(std::string_view what) const;

  /// Runs `callback` when the token is cancelled, or immediately on this thread if it already is.
  /// The callback must not throw (that ends the process) and should only wake a waiting thread.
  CancelRegistration on_cancel(std::function<void()> callback) const;

  /// Whether both are copies of one token.
  friend bool operator==(const CancelToken& a, const CancelToken& b) {
    return a.source_ == b.source_;
  }

 private:
  mutable std::stop_source source_;
};

/// Waits for `time`, or until the token is cancelled. Thread-safety: any thread.
void interruptible_wait(std::chrono::milliseconds time, const CancelToken& cancel);

/// A separate token that is also cancelled when an outer one is: for a part of a job that may end
/// before the job does. Cancelling it does not cancel the outer token.
///
/// The link ends with this object; copies of the token may outlive it.
///
/// Thread-safety: all functions from any thread.
class LinkedToken {
 public:
  /// Not linked if `outer` is unset.
  explicit LinkedToken(const std::optional<CancelToken>& outer) {
    if (outer) link_ = outer->on_cancel([token = token_] { token.cancel(); });
  }
  LinkedToken(const LinkedToken&) = delete;
  LinkedToken& operator=(const LinkedToken&) = delete;

  const CancelToken& token() const { return token_; }
  void cancel() const { token_.cancel(); }

 private:
  const CancelToken token_;
  CancelRegistration link_;
};

}  // namespace brigade::concurrency
