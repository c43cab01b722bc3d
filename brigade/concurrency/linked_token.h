#pragma once

#include <optional>

#include "brigade/concurrency/cancel_token.h"

namespace brigade::concurrency {

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
