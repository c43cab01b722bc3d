#include "brigade/concurrency/signal.h"

#include "brigade/concurrency/poll.h"

namespace brigade::concurrency {

void Signal::raise() {
  // seq_cst pairs with the sleeper's: either it sees the new value, or we see the sleeper and wake
  // it.
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  { const std::lock_guard lock(mutex_); }
  raised_.notify_all();
}

bool Signal::wait_for(std::uint64_t target, std::chrono::microseconds spin,
                      std::chrono::milliseconds timeout) {
  const auto reached = [&] { return value_.load(std::memory_order_seq_cst) >= target; };
  if (poll_for(spin, reached)) return true;
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const bool in_time = raised_.wait_for(lock, timeout, reached);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return in_time;
}

}  // namespace brigade::concurrency
