#include "apps/brigade/start_watch.h"

#include <chrono>

#include "brigade/base/strings.h"

namespace brigade::command {
namespace {

// A signal handler cannot wake a thread, so a thread polls.
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

StartWatch::StartWatch() : StartWatch(std::make_unique<const Interrupt>()) {}

StartWatch::StartWatch(std::unique_ptr<const Interrupt> own) : StartWatch(*own) {
  own_ = std::move(own);
}

StartWatch::StartWatch(const Interrupt& interrupt)
    : interrupt_(interrupt), watcher_([this](const std::stop_token& end) {
        std::unique_lock lock(mutex_);
        while (!end.stop_requested() && !interrupt_.received())
          ended_.wait_for(lock, end, kLook, [] { return false; });
        lock.unlock();
        if (interrupt_.received()) token_.cancel();
      }) {}

void StartWatch::throw_if_stopped(const std::string& waiting_for) const {
  const auto signal = interrupt_.received();
  if (!signal) return;
  throw StoppedAtStart(*signal,
                       base::str_cat("stopped by ", signal_name(*signal), " while waiting for ",
                                     waiting_for, "; nothing had begun"));
}

}  // namespace brigade::command
