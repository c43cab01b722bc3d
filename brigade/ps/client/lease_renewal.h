#pragma once

#include <chrono>
#include <functional>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/thread_pool.h"

namespace brigade::ps {

/// Renews a lease on its own thread, also while its holder computes, until it is destroyed.
///
/// Thread-safety: one thread.
class LeaseRenewal {
 public:
  /// Renews the lease once, and returns the time until it is called again.
  using Renew = std::function<std::chrono::milliseconds()>;

  /// Calls `renew` for the first time after `first`. It must not throw. It ends with `cancel`, too.
  LeaseRenewal(std::chrono::milliseconds first, Renew renew,
               const concurrency::CancelToken& cancel);
  /// Waits for a renewal in progress.
  ~LeaseRenewal();
  LeaseRenewal(const LeaseRenewal&) = delete;
  LeaseRenewal& operator=(const LeaseRenewal&) = delete;

 private:
  concurrency::LinkedToken end_;
  concurrency::ThreadPool thread_;  // last: joined before what it uses goes
};

}  // namespace brigade::ps
