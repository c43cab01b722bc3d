#include "brigade/checkpoint/shard_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/retention.h"
#include "brigade/checkpoint/shard_files.h"
#include "brigade/concurrency/thread_pool.h"

namespace brigade::checkpoint {
namespace {

using Result = ShardReport::Result;

/// The shards of one save that this process writes.
struct OwnShards {
  std::int64_t save = 0;
  std::string digest;  // of the whole plan
  std::vector<ShardFile> shards;
};

// Training continues while they are written.
void clone_tensors(std::vector<ShardFile>& shards) {
  for (ShardFile& shard : shards) {
    for (NamedTensor& each : shard.tensors) each.tensor = each.tensor.clone();
  }
}

}  // namespace

// All but `save`, `wait` and `close` runs in one thread at a time: the caller's, or the pool's
// while the caller leaves it alone.
class ShardWriter::Writer {
 public:
  Writer(std::shared_ptr<io::FileSystem> files, SaverOptions options,
         std::shared_ptr<ShardExchange> exchange)
      : files_(std::move(files)), options_(std::move(options)), exchange_(std::move(exchange)) {
    check_argument(files_ != nullptr, "ShardWriter: needs a file system");
    check_argument(exchange_ != nullptr && exchange_->rank() > 0,
                   "ShardWriter: needs an exchange, of another rank than the chief's, 0");
    validate(options_);
    if (options_.writing == Writing::kBackground) {
      pool_ = std::make_unique<concurrency::ThreadPool>(
          concurrency::ThreadPoolOptions{.threads = 1, .name = "shard-writer"});
    }
  }
  ~Writer() { close(); }

  void save(std::int64_t step, const Contents& contents) {
    check_state(!is_closed_, "ShardWriter: save after close");
    wait();
    ++saves_;
    const Snapshot snapshot = take_snapshot(step, contents, SnapshotMemory::kShared);
    if (is_left_out_) return;
    auto own = std::make_shared<OwnShards>(own_shards_of(snapshot));
    if (pool_ == nullptr) return participate(*own);
    clone_tensors(own->shards);
    pool_->submit([this, own = std::move(own)]() mutable {
      participate(*own);
      own.reset();  // freed here, not by the training thread
    });
  }

  // Without a deadline: a write ends or fails when the system says so.
  void wait() {
    if (pool_ != nullptr) pool_->wait_idle({});
  }

  void close() {
    if (std::exchange(is_closed_, true)) return;
    wait();
    pool_.reset();
    reported_.has_ended = true;
    post_quietly();
    exchange_.reset();  // releases its references to the cluster
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(exchange_->count()); }

  OwnShards own_shards_of(const Snapshot& snapshot) const {
    std::vector<ShardFile> all = plan_shards(snapshot, shards_of(options_, count()));
    OwnShards own{.save = saves_, .digest = digest_of(all), .shards = {}};
    const std::vector<int> writers = assign_writers(all, exchange_->count());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (writers[i] == exchange_->rank()) own.shards.push_back(std::move(all[i]));
    }
    return own;
  }

  void participate(const OwnShards& own) noexcept {
    try {
      const Announcement announced = wait_for_chief(own.save);
      is_left_out_ = announced.left_out.contains(exchange_->rank());
      const bool is_given_up = announced.save != own.save || announced.folder.empty();
      if (is_left_out_ || is_given_up) return;
      reported_ = report_on(own, announced);
      exchange_->post(reported_.text());
    } catch (const std::exception& error) {
      base::log_warning("A part of a checkpoint was not written or not reported: ", error.what());
    }
  }

  Announcement wait_for_chief(std::int64_t save) {
    return Announcement::parse(exchange_->wait_for(0, [&](const std::string& text) {
      const auto announced = Announcement::parse(text);
      return announced.save >= save || announced.has_ended;
    }));
  }

  ShardReport report_on(const OwnShards& own, const Announcement& announced) {
    ShardReport report{.save = own.save};
    try {
      write(own, announced, report);
    } catch (const Error& error) {
      // Missing permission is permanent; any other error is one of the disk.
      const bool is_refused = error.code() == ErrorCode::kPermissionDenied;
      report.result = is_refused ? Result::kDeclined : Result::kFailed;
      report.code = error.code();
      report.reason = error.what();
    } catch (const std::exception& error) {
      report.result = Result::kFailed;
      report.reason = error.what();
    }
    if (report.result == Result::kWritten) return report;
    base::log_warning("This worker's part of a checkpoint was not written: ", report.reason);
    return report;
  }

  void write(const OwnShards& own, const Announcement& announced, ShardReport& report) {
    const auto decline = [&](const std::string& reason) {
      report.result = Result::kDeclined;
      report.reason = reason;
    };
    const io::Path folder = options_.directory / announced.folder;
    if (announced.digest != own.digest)
      return decline("it holds other tensors than the chief, or has another number of shards");
    if (!files_->exists(folder)) {
      return decline(base::str_cat(
          "it does not see the folder ", folder,
          ", which the chief has made; checkpoints written by all workers need a shared disk"));
    }
    std::vector<const ShardFile*> shards;
    for (const ShardFile& each : own.shards) shards.push_back(&each);
    const auto seals = write_shards(*files_, folder, shards, threads_of(options_, count()));
    for (std::size_t i = 0; i < seals.size(); ++i)
      report.files.push_back({own.shards[i].name, seals[i]});
  }

  // A process that cannot be reached notices that this one is gone.
  void post_quietly() noexcept {
    try {
      exchange_->post(reported_.text());
    } catch (const std::exception&) {
    }
  }

  std::shared_ptr<io::FileSystem> files_;
  SaverOptions options_;
  std::shared_ptr<ShardExchange> exchange_;
  std::int64_t saves_ = 0;
  ShardReport reported_;      // the latest one
  bool is_left_out_ = false;  // as the chief says
  bool is_closed_ = false;
  std::unique_ptr<concurrency::ThreadPool> pool_;  // last: its thread uses all above
};

ShardWriter::ShardWriter(std::shared_ptr<io::FileSystem> files, SaverOptions options,
                         std::shared_ptr<ShardExchange> exchange)
    : writer_(std::make_unique<Writer>(std::move(files), std::move(options), std::move(exchange))) {
}
ShardWriter::~ShardWriter() = default;

void ShardWriter::save(std::int64_t step, const Contents& contents) {
  writer_->save(step, contents);
}
void ShardWriter::wait() {
  writer_->wait();
}
void ShardWriter::close() {
  writer_->close();
}

}  // namespace brigade::checkpoint
