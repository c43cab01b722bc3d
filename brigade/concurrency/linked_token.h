#pragma once

#include <optional>

#include "brigade/concurrency/cancel_token.h"

namespace brigade::concurrency {

/// A token of somebody's own that is also cancelled when another one is: for a part of a job that
/// may end before the job does. Cancelling it leaves the other one as it is.
///
/// The link ends with this object; copies of the token may outlive it.
///
/// Thread-safety: all functions from any thread.
class LinkedToken {
 public:
  /// Linked to nothing if `outer` is unset.
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
