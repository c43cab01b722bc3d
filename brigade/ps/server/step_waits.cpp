#include "brigade/ps/server/step_waits.h"

#include <algorithm>

#include "brigade/base/error.h"

namespace brigade::ps {
namespace {

constexpr std::chrono::milliseconds kPiece{200};

}  // namespace

/// A call in progress.
class StepWaits::Wait {
 public:
  Wait(StepWaits& waits, const std::string& token)
      : waits_(waits), token_(token), number_(waits_.enter(token_)) {}
  ~Wait() { waits_.leave(token_, number_); }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  void check_latest() const { waits_.check_latest(token_, number_); }

 private:
  StepWaits& waits_;
  const std::string& token_;
  const std::uint64_t number_;
};

BeginStepReply StepWaits::run(const std::string& token, const BeginStepRequest& request,
                              Time deadline, const std::function<void()>& check) {
  const Wait wait(*this, token);
  const Time end = std::min(deadline, std::chrono::steady_clock::now() + request.wait);
  BeginStepRequest piece = request;
  for (;;) {
    wait.check_latest();
    check();
    const auto left =
        std::chrono::floor<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    piece.wait = std::clamp(left, std::chrono::milliseconds(0), kPiece);
    BeginStepReply reply = service_.begin_step(token, piece, deadline);
    if (reply.may_begin || left <= kPiece) return reply;
  }
}

std::uint64_t StepWaits::enter(const std::string& token) {
  const concurrency::MutexLock lock(mutex_);
  latest_[token] = ++last_number_;
  return last_number_;
}

void StepWaits::leave(const std::string& token, std::uint64_t number) {
  const concurrency::MutexLock lock(mutex_);
  const auto found = latest_.find(token);
  if (found != latest_.end() && found->second == number) latest_.erase(found);
}

void StepWaits::check_latest(const std::string& token, std::uint64_t number) {
  const concurrency::MutexLock lock(mutex_);
  const auto found = latest_.find(token);
  if (found != latest_.end() && found->second == number) return;
  throw Error(ErrorCode::kResourceExhausted,
              "A task waits for one step at a time: a later call of it has replaced this one.");
}

}  // namespace brigade::ps
