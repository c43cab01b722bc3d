#include "brigade/train/session/workers_saver.h"

#include <utility>

#include "brigade/distribute/worker_group.h"
#include "brigade/train/session/membership_shard_exchange.h"

namespace brigade::train {
namespace {

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

WorkersSaver::WorkersSaver(const distribute::Strategy& strategy,
                           std::shared_ptr<io::FileSystem> files,
                           const checkpoint::SaverOptions& options,
                           std::shared_ptr<const base::Clock> clock) {
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
