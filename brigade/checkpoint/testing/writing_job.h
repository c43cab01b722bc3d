#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/checkpoint/shard_writer.h"
#include "brigade/checkpoint/testing/sample.h"

namespace brigade::checkpoint::testing {

/// The status texts of processes that are threads of a test.
class InMemoryShardStatus {
 public:
  explicit InMemoryShardStatus(int count) : texts_(static_cast<std::size_t>(count)) {}

  int count() const { return static_cast<int>(texts_.size()); }
  static std::string name(int rank) { return base::str_cat("/job:worker/task:", rank); }

  void post(int rank, std::string_view text) {
    const std::lock_guard lock(mutex_);
    texts_[static_cast<std::size_t>(rank)] = std::string(text);
    ++posts_;
    changed_.notify_all();
  }
  std::string wait_for(int rank, const ShardExchange::Predicate& is_expected) {
    std::unique_lock lock(mutex_);
    const std::string& text = texts_[static_cast<std::size_t>(rank)];
    const bool has_come =
        changed_.wait_for(lock, timeout_, [&] { return lost_ || is_expected(text); });
    if (lost_) throw Error(ErrorCode::kUnavailable, name(*lost_), " was lost");
    if (!has_come) throw Error(ErrorCode::kDeadlineExceeded, name(rank));
    return text;
  }
  void lose(int rank) {
    const std::lock_guard lock(mutex_);
    lost_ = rank;
    changed_.notify_all();
  }
  void give_up_after(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  int posts() const {
    const std::lock_guard lock(mutex_);
    return posts_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
  std::optional<int> lost_;
  std::chrono::milliseconds timeout_ = std::chrono::seconds(60);
  int posts_ = 0;
};

/// One rank's view of the shared status.
class InMemoryShardExchange final : public ShardExchange {
 public:
  InMemoryShardExchange(std::shared_ptr<InMemoryShardStatus> status, int rank)
      : status_(std::move(status)), rank_(rank) {}
  int rank() const override { return rank_; }
  int count() const override { return status_->count(); }
  std::string name(int rank) const override { return InMemoryShardStatus::name(rank); }
  void post(std::string_view text) override { status_->post(rank_, text); }
  std::string wait_for(int rank, const Predicate& is_expected) override {
    return status_->wait_for(rank, is_expected);
  }

 private:
  std::shared_ptr<InMemoryShardStatus> status_;
  int rank_;
};

/// Processes that write checkpoints together, as objects of one thread that write in the
/// background. Each has its own file system; all may access the same files.
struct WritingJob {
  explicit WritingJob(std::vector<std::shared_ptr<io::FileSystem>> files,
                      SaverOptions options = {.directory = "/run"})
      : status(std::make_shared<InMemoryShardStatus>(static_cast<int>(files.size()))) {
    options.writing = Writing::kBackground;
    saver.emplace(files[0], options, nullptr, std::make_shared<InMemoryShardExchange>(status, 0));
    for (int rank = 1; rank < status->count(); ++rank) {
      others.push_back(
          std::make_unique<ShardWriter>(files[static_cast<std::size_t>(rank)], options,
                                        std::make_shared<InMemoryShardExchange>(status, rank)));
    }
  }

  /// All processes save, the chief last: the others wait for it.
  void save(std::int64_t step, const Contents& contents) {
    for (const auto& other : others) other->save(step, contents);
    saver->save(step, contents);
  }
  /// Throws the chief's error.
  void wait() {
    saver->wait();
    for (const auto& other : others) other->wait();
  }

  std::shared_ptr<InMemoryShardStatus> status;
  std::optional<Saver> saver;
  std::vector<std::unique_ptr<ShardWriter>> others;
};

}  // namespace brigade::checkpoint::testing
