#include "brigade/ps/client/lease_renewal.h"

#include <utility>

namespace brigade::ps {

LeaseRenewal::LeaseRenewal(std::chrono::milliseconds first, Renew renew,
                           const concurrency::CancelToken& cancel)
    : end_(cancel), thread_({.threads = 1, .name = "lease"}) {
  thread_.submit([pause = first, renew = std::move(renew), end = end_.token()]() mutable {
    while (true) {
      concurrency::interruptible_wait(pause, end);
      if (end.is_cancelled()) return;
      pause = renew();
    }
  });
}

LeaseRenewal::~LeaseRenewal() {
  end_.cancel();
}

}  // namespace brigade::ps
