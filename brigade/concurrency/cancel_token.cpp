#include "brigade/concurrency/cancel_token.h"

#include "brigade/base/error.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::concurrency {

CancelToken::CancelToken() = default;
CancelToken::CancelToken(const CancelToken& other) noexcept = default;
CancelToken& CancelToken::operator=(const CancelToken& other) noexcept = default;
CancelToken::~CancelToken() = default;

void CancelToken::throw_if_cancelled(std::string_view what) const {
  if (is_cancelled()) throw Error(ErrorCode::kCancelled, what, ": cancelled");
}

CancelRegistration CancelToken::on_cancel(std::function<void()> callback) const {
  return CancelRegistration(
      std::make_unique<CancelRegistration::Callback>(source_.get_token(), std::move(callback)));
}

void interruptible_wait(std::chrono::milliseconds time, const CancelToken& cancel) {
  Mutex mutex;
  Condition changed;
  const CancelRegistration wake = cancel.on_cancel([&] {
    const MutexLock lock(mutex);
    changed.notify_all();
  });
  const auto deadline = std::chrono::steady_clock::now() + time;
  const MutexLock lock(mutex);
  while (!cancel.is_cancelled() && std::chrono::steady_clock::now() < deadline)
    changed.wait_until(mutex, deadline);
}

}  // namespace brigade::concurrency
