#include "brigade/train/session/workers_saver.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/train/session/session_context.h"

namespace brigade::train {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kShortestPause(1);
constexpr milliseconds kLongestPause(20);
constexpr std::string_view kWhat = "a part of a checkpoint";

class MembershipShardExchange final : public checkpoint::ShardExchange {
 public:
  MembershipShardExchange(std::shared_ptr<cluster::Membership> membership, std::int64_t group,
                          milliseconds timeout)
      : membership_(std::move(membership)), group_(group), timeout_(timeout) {}

  int rank() const override { return membership_->self().rank; }
  int count() const override { return static_cast<int>(membership_->members().size()); }
  std::string name(int rank) const override {
    return cluster::to_string(membership_->members().at(static_cast<std::size_t>(rank)).task);
  }
  void post(std::string_view text) override { membership_->set(key_of(rank()), text); }

  std::string wait_for(int rank, const Predicate& is_expected) override {
    const auto deadline = Clock::now() + timeout_;
    for (milliseconds pause = kShortestPause;; pause = std::min(2 * pause, kLongestPause)) {
      std::string text = read(rank, deadline);
      if (is_expected(text)) return text;
      cluster::throw_if_lost(*membership_, kWhat);
      if (Clock::now() >= deadline) throw_too_late(rank);
      concurrency::interruptible_wait(pause, membership_->lost_token());
    }
  }

 private:
  std::string key_of(int rank) const { return base::str_cat("checkpoint/", group_, "/", rank); }

  /// Returns the current message; waits for the first one.
  std::string read(int rank, Clock::time_point deadline) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    try {
      return membership_->get(key_of(rank), std::max(left, milliseconds(1)));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kDeadlineExceeded) throw_too_late(rank);
      throw;
    }
  }

  [[noreturn]] void throw_too_late(int rank) const {
    throw Error(ErrorCode::kDeadlineExceeded, name(rank), " did not start to write ", kWhat,
                " within ", timeout_.count(),
                " ms; is its disk very slow, or has its process stalled?");
  }

  std::shared_ptr<cluster::Membership> membership_;
  const std::int64_t group_;
  const milliseconds timeout_;
};

constexpr std::int64_t kChiefOnly = 0;

/// The exchange for writing together, if the chief's options say so; null: the chief writes alone.
std::shared_ptr<checkpoint::ShardExchange> exchange_of(const distribute::Strategy& strategy,
                                                       checkpoint::Writers writers) {
  const distribute::WorkerGroup* workers = strategy.workers();
  if (workers == nullptr) return nullptr;
  std::int64_t group = kChiefOnly;
  if (strategy.is_chief() && writers == checkpoint::Writers::kAllWorkers)
    group = workers->membership->add("checkpoint/groups", 1);
  group = strategy.broadcast_from_chief(group);
  if (group == kChiefOnly) return nullptr;
  return make_shard_exchange(workers->membership, group, workers->communication.timeout);
}

}  // namespace

std::shared_ptr<checkpoint::ShardExchange> make_shard_exchange(
    std::shared_ptr<cluster::Membership> membership, std::int64_t group, milliseconds timeout) {
  check_argument(membership != nullptr, "make_shard_exchange: the membership is null");
  return std::make_shared<MembershipShardExchange>(std::move(membership), group, timeout);
}

WorkersSaver::WorkersSaver(const distribute::Strategy& strategy,
                           std::shared_ptr<io::FileSystem> files,
                           const checkpoint::SaverOptions& options,
                           std::shared_ptr<const base::Clock> clock)
    : participates_(strategy.is_chief() || strategy.has_worker_collectives()) {
  auto exchange = exchange_of(strategy, options.writers);
  if (strategy.is_chief()) {
    saver_ = std::make_unique<checkpoint::Saver>(std::move(files), options, std::move(clock),
                                                 std::move(exchange));
  } else if (exchange != nullptr) {
    shard_writer_ =
        std::make_unique<checkpoint::ShardWriter>(std::move(files), options, std::move(exchange));
  }
}

void WorkersSaver::save(std::int64_t step, const checkpoint::Contents& contents) {
  if (saver_) return saver_->save(step, contents);
  if (shard_writer_) return shard_writer_->save(step, contents);
  checkpoint::take_snapshot(step, contents, checkpoint::SnapshotMemory::kShared);
}

void WorkersSaver::wait() {
  if (saver_) saver_->wait();
  if (shard_writer_) shard_writer_->wait();
}

void WorkersSaver::close() {
  if (saver_) saver_->close();
  if (shard_writer_) shard_writer_->close();
}

void WorkersSaver::set_aside(const std::vector<io::Path>& broken) {
  if (saver_) saver_->set_aside(broken);
}

std::vector<io::Path> WorkersSaver::checkpoints() {
  if (shard_writer_) shard_writer_->wait();
  return saver_ ? saver_->checkpoints() : std::vector<io::Path>();
}

}  // namespace brigade::train
