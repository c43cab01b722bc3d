#include "brigade/concurrency/cancel_token.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::concurrency {

void CancelToken::throw_if_cancelled(std::string_view what) const {
  if (is_cancelled()) throw Error(ErrorCode::kCancelled, base::str_cat(what, ": cancelled"));
}

CancelRegistration CancelToken::on_cancel(std::function<void()> callback) const {
  return CancelRegistration(
      std::make_unique<CancelRegistration::Callback>(source_.get_token(), std::move(callback)));
}

}  // namespace brigade::concurrency
