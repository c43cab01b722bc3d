#include "brigade/concurrency/barrier.h"

#include <algorithm>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/poll.h"

namespace brigade::concurrency {

Barrier::Barrier(BarrierOptions options)
    : options_(std::move(options)),
      left_(static_cast<std::size_t>(std::max(options_.parties, 0)), false) {
  check_argument(options_.parties >= 1, "A barrier needs at least one party.");
  arrivals_ =
      std::make_unique<std::atomic<std::uint64_t>[]>(static_cast<std::size_t>(options_.parties));
}

void Barrier::arrive_and_wait(int party) {
  if (failed_.load(std::memory_order_acquire)) throw_failure(party);
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  arrivals_[party].fetch_add(1, std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == options_.parties) {
    arrived_.store(0, std::memory_order_relaxed);
    release_all();
    return;
  }
  if (spin_until_done(generation)) return;
  sleep_until_done(generation, party);
}

bool Barrier::spin_until_done(std::uint64_t generation) const {
  const auto done = [&] { return generation_.load(std::memory_order_acquire) != generation; };
  poll_for(options_.spin, [&] { return done() || failed_.load(std::memory_order_acquire); });
  return done();
}

void Barrier::sleep_until_done(std::uint64_t generation, int party) {
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  const auto done = [&] { return generation_.load(std::memory_order_seq_cst) != generation; };
  const bool in_time = changed_.wait_until(
      lock, deadline, [&] { return done() || failed_.load(std::memory_order_acquire); });
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  if (done()) return;
  lock.unlock();
  if (!in_time) {
    const std::string late =
        base::str_cat(options_.party_name, " ", party, " waited ", options_.timeout.count(),
                      " ms for ", missing_parties(), ", which did not come");
    abort(party, late);
    throw Error(ErrorCode::kDeadlineExceeded, late,
                ". Every replica must make the same collective calls; raise the timeout if one of "
                "them really needs longer.");
  }
  throw_failure(party);
}

void Barrier::release_all() {
  // seq_cst pairs with the sleeper's: either it sees the new generation, or we see the sleeper and
  // wake it.
  generation_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  { std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

void Barrier::leave(int party) {
  // Waiters would wait for the party that left; later arrivals see `failed_`. What they are told is
  // written when one comes: parties leave in every step.
  std::lock_guard lock(mutex_);
  left_[party] = true;
  if (failure_party_ < 0) failure_party_ = party;
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Barrier::abort(int party, const std::string& reason) {
  std::lock_guard lock(mutex_);
  const bool only_left = failure_party_ >= 0 && left_[failure_party_];
  if (failure_party_ < 0 || only_left) {
    failure_ = reason;
    failure_party_ = party;
    left_.assign(left_.size(), false);
  }
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Barrier::throw_failure(int party) {
  std::lock_guard lock(mutex_);
  const bool left = failure_party_ >= 0 && left_[failure_party_];
  const std::string me = options_.party_name + " " + std::to_string(party);
  if (left) {
    throw Error(ErrorCode::kFailedPrecondition, me, " waits in a collective call, but ",
                options_.party_name, " ", failure_party_,
                " has already returned: every replica must make the same collective calls, in the "
                "same order.");
  }
  throw Error(ErrorCode::kAborted, me + " was released from a collective call: " + failure_);
}

void Barrier::reset() {
  std::lock_guard lock(mutex_);
  arrived_.store(0);
  for (int party = 0; party < options_.parties; ++party) arrivals_[party].store(0);
  left_.assign(left_.size(), false);
  failure_.clear();
  failure_party_ = -1;
  failed_.store(false, std::memory_order_release);
}

std::string Barrier::missing_parties() const {
  std::uint64_t most = 0;
  for (int party = 0; party < options_.parties; ++party) {
    most = std::max(most, arrivals_[party].load(std::memory_order_relaxed));
  }
  std::string missing;
  for (int party = 0; party < options_.parties; ++party) {
    if (arrivals_[party].load(std::memory_order_relaxed) == most) continue;
    missing += (missing.empty() ? "" : ", ") + options_.party_name + " " + std::to_string(party);
  }
  return missing;
}

}  // namespace brigade::concurrency
