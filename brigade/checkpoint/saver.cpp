#include "brigade/checkpoint/saver.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <random>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint_directory.h"
#include "brigade/checkpoint/other_writers.h"
#include "brigade/checkpoint/retention.h"
#include "brigade/checkpoint/shard_files.h"
#include "brigade/concurrency/thread_pool.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/atomic_write.h"

namespace brigade::checkpoint {
namespace {

struct Known {
  io::Path path;
  std::int64_t step = 0;
  Candidate candidate;
};

Known known_of(const io::Path& path, const Manifest& manifest) {
  return {.path = path,
          .step = manifest.step,
          .candidate = {.number = manifest.number,
                        .is_kept = manifest.kept.is_kept,
                        .metrics = manifest.metrics}};
}

void add_files(Manifest& manifest, const std::vector<ShardFile>& shards,
               const std::vector<Seal>& seals) {
  for (const ShardFile& shard : shards) {
    const std::size_t file = manifest.files.size();
    manifest.files.push_back({shard.name, seals[file]});
    auto& section = manifest.tensors[static_cast<std::size_t>(shard.section)];
    for (const NamedTensor& each : shard.tensors) {
      section[each.name] = {.file = file,
                            .dtype = *device::file_dtype_of(each.tensor.scalar_type()),
                            .shape = each.tensor.sizes().vec()};
    }
  }
}

void write_file(io::FileSystem& files, const io::Path& path, std::string_view text) {
  const auto file = files.create(path, io::CreateMode::kExclusive);
  file->write(io::as_bytes(text));
  file->sync();
  file->close();
}

/// A folder that is removed unless it became a checkpoint.
class TemporaryFolder {
 public:
  TemporaryFolder(io::FileSystem& files, io::Path path) : files_(files), path_(std::move(path)) {}
  ~TemporaryFolder() {
    if (is_done_) return;
    try {
      remove_checkpoint_folder(files_, path_);
    } catch (const Error&) {  // the error that brought us here matters more
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const io::Path& path() const { return path_; }
  void become(const io::Path& target) {
    files_.rename(path_, target);
    is_done_ = true;
  }

 private:
  io::FileSystem& files_;
  io::Path path_;
  bool is_done_ = false;
};

io::Path free_path(const io::FileSystem& files, const io::Path& directory, std::int64_t step) {
  for (int attempt = 1;; ++attempt) {
    io::Path path = directory / folder_name(step, attempt);
    if (!files.entry(path)) return path;
  }
}

std::string new_nonce() {
  std::random_device device;
  char nonce[32];
  std::snprintf(nonce, sizeof nonce, "%08x%08x", device(), device());
  return nonce;
}

}  // namespace

// All but `submit` and `finish` runs in one thread at a time: the caller's, or the pool's while the
// caller leaves it alone.
class Saver::Writer {
 public:
  Writer(std::shared_ptr<io::FileSystem> files, SaverOptions options,
         std::shared_ptr<const base::Clock> clock, std::shared_ptr<ShardExchange> exchange)
      : files_(std::move(files)), options_(std::move(options)), clock_(std::move(clock)) {
    check_argument(files_ != nullptr, "Saver: needs a file system");
    validate(options_);
    if (exchange != nullptr) others_.emplace(std::move(exchange));
    if (clock_ == nullptr) clock_ = std::make_shared<base::SystemClock>();
    io::create_synced_directories(*files_, options_.directory);
    remove_unfinished_saves(*files_, options_.directory);
    held_directory_ = files_->hold(options_.directory);
    kept_.last_time = now();
    read_directory();
    if (options_.writing == Writing::kBackground) {
      pool_ = std::make_unique<concurrency::ThreadPool>(
          concurrency::ThreadPoolOptions{.threads = 1, .name = "saver"});
    }
  }
  ~Writer() {
    try {
      close();
    } catch (const std::exception& error) {
      base::log_error("a checkpoint could not be saved: ", error.what());
    }
  }

  void save(std::int64_t step, const Contents& contents) {
    check_state(!is_closed_, "Saver: save after close");
    const std::int64_t save = ++saves_;  // failed saves count too: the other processes count them
    wait();
    check_directory();
    if (pool_ == nullptr)
      return write(take_snapshot(step, contents, SnapshotMemory::kShared), save);
    auto snapshot =
        std::make_shared<const Snapshot>(take_snapshot(step, contents, SnapshotMemory::kOwn));
    pool_->submit([this, save, snapshot = std::move(snapshot)]() mutable {
      try {
        write(*snapshot, save);
      } catch (...) {
        error_ = std::current_exception();
      }
      snapshot.reset();  // freed here, not by the training thread
    });
  }

  void wait() {
    settle();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  void close() {
    is_closed_ = true;
    settle();
    pool_.reset();
    if (others_) others_->end();
    others_.reset();  // releases its references to the cluster
    wait();
  }
  void set_aside(const std::vector<io::Path>& broken) {
    settle();
    if (broken.empty()) return;
    check_directory();
    forget(broken);
    for (const io::Path& each : broken) checkpoint::set_aside(*files_, each);
    files_->sync_directory(options_.directory);
  }
  std::vector<io::Path> checkpoints() {
    settle();
    std::vector<io::Path> paths;
    for (const Known& each : known_) paths.push_back(each.path);
    return paths;
  }

 private:
  // Without a deadline: a write ends or fails when the system says so.
  void settle() {
    if (pool_ != nullptr) pool_->wait_idle({});
  }

  // Otherwise checkpoints could be written into a folder that merely replaced the original one.
  void check_directory() const {
    if (held_directory_->is_unchanged()) return;
    throw Error(
        ErrorCode::kFailedPrecondition, "the checkpoint directory ", options_.directory,
        " is no longer the one that this training saves to: it was removed, renamed, replaced or "
        "unmounted, so nothing is saved; restore it and start the training again");
  }

  void read_directory() {
    known_.clear();
    for (const DirectoryEntry& each : list_checkpoints(*files_, options_.directory)) {
      if (!each.manifest) {
        base::log_warning(each.path, " is not a complete checkpoint: ", each.reason);
        continue;
      }
      known_.push_back(known_of(each.path, *each.manifest));
      number_ = std::max(number_, each.manifest->number);
      kept_ = each.manifest->kept;
    }
  }

  std::chrono::milliseconds now() const {
    const auto since_1970 = clock_->wall_time().time_since_epoch();
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(since_1970),
                    std::chrono::milliseconds(0));
  }

  void write(const Snapshot& snapshot, std::int64_t save) {
    try {
      commit(snapshot, save);
    } catch (...) {
      if (others_) others_->give_up(save);
      throw;
    }
  }

  void commit(const Snapshot& snapshot, std::int64_t save) {
    check_directory();
    // Finds what a failed write has left (it may have failed after the checkpoint got its name).
    if (std::exchange(is_unsure_, true)) read_directory();
    const auto time = now();
    // Counted first: a failed checkpoint may be complete all the same, and must count as older.
    Manifest manifest{.number = ++number_,
                      .step = snapshot.step,
                      .time = time,
                      .files = {},
                      .tensors = {},
                      .metrics = snapshot.metrics,
                      .metadata = snapshot.metadata,
                      .kept = next_mark(kept_, snapshot.step, time, options_.keep_every),
                      .state = snapshot.state};
    const io::Path path = write_checkpoint(snapshot, save, manifest);
    kept_ = manifest.kept;
    known_.push_back(known_of(path, manifest));
    io::replace_file(*files_, options_.directory / kLatestName,
                     base::str_cat(path.filename(), "\n"));
    remove(outdated());  // which also syncs the new `latest`
    is_unsure_ = false;
    if (options_.on_saved) options_.on_saved(snapshot.step);
  }

  /// Writes one checkpoint: the tensor files, then the manifest, into a temporary folder.
  /// Everything is synced before the folder is renamed to its final name, and the rename is synced
  /// before this returns. A crash at any point leaves either no checkpoint or a complete one. If
  /// the step has a folder already, the new one gets another name and the old one stays. After an
  /// error, the files written so far are removed if possible.
  io::Path write_checkpoint(const Snapshot& snapshot, std::int64_t save, Manifest& manifest) {
    const std::size_t writers = others_ ? static_cast<std::size_t>(others_->count()) : 1;
    const auto shards = plan_shards(snapshot, shards_of(options_, writers));
    // Folders that other processes write into have a unique name, so that a late writer of a failed
    // save or of an earlier run of the job finds no folder.
    TemporaryFolder folder(*files_, make_saving_folder(*files_, options_.directory, snapshot.step,
                                                       others_ ? new_nonce() : ""));
    add_files(manifest, shards,
              write_tensors(folder.path(), shards, save, threads_of(options_, writers)));
    write_file(*files_, folder.path() / kManifestName, write_manifest(manifest));
    files_->sync_directory(folder.path());
    const io::Path path = free_path(*files_, options_.directory, snapshot.step);
    folder.become(path);
    files_->sync_directory(options_.directory);
    return path;
  }

  std::vector<Seal> write_tensors(const io::Path& folder, const std::vector<ShardFile>& shards,
                                  std::int64_t save, std::size_t num_threads) {
    if (others_) return others_->write(save, *files_, folder, shards, num_threads);
    std::vector<const ShardFile*> all;
    for (const ShardFile& each : shards) all.push_back(&each);
    return write_shards(*files_, folder, all, num_threads);
  }

  // The checkpoints that the newest one replaces, and those that no rule keeps.
  std::vector<io::Path> outdated() const {
    const Known& newest = known_.back();
    std::vector<io::Path> paths;
    std::vector<Candidate> candidates;
    for (const Known& each : known_) {
      const bool is_replaced = each.step == newest.step && each.path != newest.path;
      if (is_replaced) paths.push_back(each.path);
      if (!is_replaced) candidates.push_back(each.candidate);
    }
    for (const std::int64_t number : to_remove(candidates, options_)) {
      for (const Known& each : known_) {
        if (each.candidate.number == number) paths.push_back(each.path);
      }
    }
    return paths;
  }

  // Syncs the directory.
  void remove(const std::vector<io::Path>& paths) {
    forget(paths);
    remove_checkpoints(*files_, options_.directory, paths);
  }

  void forget(const std::vector<io::Path>& paths) {
    std::erase_if(known_, [&](const Known& each) {
      return std::find(paths.begin(), paths.end(), each.path) != paths.end();
    });
  }

  std::shared_ptr<io::FileSystem> files_;
  SaverOptions options_;
  std::shared_ptr<const base::Clock> clock_;
  std::unique_ptr<io::HeldFolder> held_directory_;
  std::vector<Known> known_;  // complete, oldest first
  std::int64_t number_ = 0;   // of the newest
  KeptMark kept_;             // of the newest
  std::optional<OtherWriters> others_;
  std::int64_t saves_ = 0;    // started
  std::exception_ptr error_;  // of the background write
  bool is_unsure_ = false;    // a write has failed: known_ may differ from the directory
  bool is_closed_ = false;
  std::unique_ptr<concurrency::ThreadPool> pool_;  // last: its thread uses all above
};

Saver::Saver(std::shared_ptr<io::FileSystem> files, SaverOptions options,
             std::shared_ptr<const base::Clock> clock, std::shared_ptr<ShardExchange> exchange)
    : writer_(std::make_unique<Writer>(std::move(files), std::move(options), std::move(clock),
                                       std::move(exchange))) {}
Saver::~Saver() = default;

void Saver::save(std::int64_t step, const Contents& contents) {
  writer_->save(step, contents);
}
void Saver::wait() {
  writer_->wait();
}
void Saver::close() {
  writer_->close();
}
void Saver::set_aside(const std::vector<io::Path>& broken) {
  writer_->set_aside(broken);
}
std::vector<io::Path> Saver::checkpoints() {
  return writer_->checkpoints();
}

}  // namespace brigade::checkpoint
