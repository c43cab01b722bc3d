#include "brigade/comm/shared_memory/shared_barrier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

#include "brigade/base/strings.h"
#include "brigade/concurrency/poll.h"

namespace brigade::comm {

namespace {

// A wake-up between a check of the flags and the sleep is missed; the flags are checked again after
// this time.
constexpr std::chrono::milliseconds kLongestSleep{100};
// If another rank gave up because of a lost member, this process learns of the loss within this
// time too.
constexpr std::chrono::milliseconds kLossTime{1000};

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// Sleeps while `word` is `value`, at most for `time`; may return early. Works between processes
/// that share the word's memory.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                std::chrono::milliseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec limit = {.tv_sec = seconds.count(),
                          .tv_nsec = std::chrono::nanoseconds(time - seconds).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

/// Wakes all threads that sleep on `word`.
void futex_wake(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

SharedBarrier::SharedBarrier(std::span<BarrierSlot> slots, BarrierFailure& failure,
                             std::shared_ptr<cluster::Membership> membership,
                             SharedBarrierOptions options)
    : slots_(slots),
      failure_(failure),
      membership_(std::move(membership)),
      options_(options),
      rank_(membership_->self().rank) {
  on_lost_ = membership_->lost_token().on_cancel([this] {
    is_lost_.store(true, std::memory_order_release);
    wake_all();
  });
}

SharedBarrier::~SharedBarrier() {
  on_lost_ = {};
  if (has_given_up_) return;  // the others get the reason instead
  slots_[rank_].has_left.store(1, std::memory_order_seq_cst);
  futex_wake(slots_[rank_].arrivals);
}

void SharedBarrier::arrive_and_wait(std::string_view what) {
  ++round_;
  BarrierSlot& mine = slots_[rank_];
  // seq_cst pairs with the sleeper's: either it sees this arrival, or this rank sees the sleeper.
  mine.arrivals.store(round_, std::memory_order_seq_cst);
  if (mine.sleepers.load(std::memory_order_seq_cst) != 0) futex_wake(mine.arrivals);
  concurrency::poll_for(options_.spin, [&] { return all_have_arrived() || is_released(); });
  if (all_have_arrived()) return;
  StragglerReport report(options_.slow_after, options_.timeout);
  for (int rank = 0; rank < static_cast<int>(slots_.size()); ++rank) {
    while (!has_arrived(rank)) sleep_until_arrived(rank, what, report);
  }
}

void SharedBarrier::sleep_until_arrived(int rank, std::string_view what, StragglerReport& report) {
  BarrierSlot& slot = slots_[rank];
  slot.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t arrivals = slot.arrivals.load(std::memory_order_seq_cst);
  if (!has_arrived(rank) && !is_released() && slot.has_left.load() == 0)
    futex_wait(slot.arrivals, arrivals, std::min(kLongestSleep, options_.timeout));
  slot.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  if (has_arrived(rank)) return;
  throw_if_released(rank, what);
  if (report.is_over()) report.fail(what, missing());
  if (report.is_due()) report.report(what, missing());
}

bool SharedBarrier::has_arrived(int rank) const {
  const std::uint32_t arrivals = slots_[rank].arrivals.load(std::memory_order_acquire);
  return static_cast<std::int32_t>(arrivals - round_) >= 0;
}

bool SharedBarrier::all_have_arrived() const {
  for (int rank = 0; rank < static_cast<int>(slots_.size()); ++rank) {
    if (!has_arrived(rank)) return false;
  }
  return true;
}

bool SharedBarrier::is_released() const {
  return is_lost_.load(std::memory_order_acquire) ||
         failure_.state.load(std::memory_order_acquire) == BarrierFailure::kWritten;
}

void SharedBarrier::throw_if_released(int rank, std::string_view what) const {
  if (is_lost_.load(std::memory_order_acquire)) cluster::throw_if_lost(*membership_, what);
  if (failure_.state.load(std::memory_order_acquire) == BarrierFailure::kWritten)
    throw_failure(what);
  if (slots_[rank].has_left.load(std::memory_order_acquire) != 0 && !has_arrived(rank))
    throw has_left_error(what, membership_->members()[rank]);
}

void SharedBarrier::throw_failure(std::string_view what) const {
  cluster::throw_if_lost(*membership_, what);  // notified of it or not
  const auto code = static_cast<ErrorCode>(failure_.code);
  const std::string text =
      base::str_cat(membership_->members()[failure_.rank], " gave up: ", failure_.text.data());
  if (code != ErrorCode::kUnavailable) throw Error(ErrorCode::kAborted, text);
  // A member is lost. This process learns by itself which one: a rank whose own connection broke
  // takes another member for lost, perhaps this one.
  throw_if_member_is_lost(what);
  throw Error(code, text);
}

void SharedBarrier::throw_if_member_is_lost(std::string_view what) const {
  wait_for_loss();
  cluster::throw_if_lost(*membership_, what);
}

void SharedBarrier::wait_for_loss() const {
  const auto until = std::chrono::steady_clock::now() + kLossTime;
  const auto& mine = slots_[rank_].arrivals;
  while (!is_lost_.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < until)
    futex_wait(mine, mine.load(), std::chrono::milliseconds(10));
}

std::string SharedBarrier::missing() const {
  std::vector<std::string> names;
  for (int rank = 0; rank < static_cast<int>(slots_.size()); ++rank) {
    if (!has_arrived(rank)) names.push_back(base::str_cat(membership_->members()[rank]));
  }
  return base::join(names, ", ");
}

void SharedBarrier::give_up(const Error& reason) noexcept {
  has_given_up_ = true;
  std::uint32_t none = BarrierFailure::kNone;
  if (!failure_.state.compare_exchange_strong(none, BarrierFailure::kWriting)) return;
  failure_.rank = rank_;
  const ErrorCode code = membership_->lost() ? ErrorCode::kUnavailable : reason.code();
  failure_.code = static_cast<std::int32_t>(code);
  std::strncpy(failure_.text.data(), reason.what(), failure_.text.size() - 1);
  failure_.state.store(BarrierFailure::kWritten, std::memory_order_release);
  wake_all();
}

void SharedBarrier::wake_all() const {
  for (const BarrierSlot& slot : slots_) futex_wake(slot.arrivals);
}

}  // namespace brigade::comm
