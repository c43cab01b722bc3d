#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/file_system.h"

namespace brigade::io {

/// A file system whose syncs of files wait while its gate is closed: a slow disk, for tests.
///
/// Thread-safety: all functions from any thread.
class GatedFileSystem final : public FileSystem {
 public:
  /// Forwards to `below`.
  explicit GatedFileSystem(std::shared_ptr<FileSystem> below) : below_(std::move(below)) {}

  void close_gate() { set_gate(false); }
  void open_gate() { set_gate(true); }
  /// Returns once a sync waits. Throws kDeadlineExceeded if none comes for 20 seconds.
  void await_sync() {
    std::unique_lock lock(gate_->mutex);
    if (!gate_->changed.wait_for(lock, kLongest, [&] { return gate_->waiting > 0; }))
      throw Error(ErrorCode::kDeadlineExceeded, "no file is synced");
  }

  std::string read(const Path& path) const override { return below_->read(path); }
  std::unique_ptr<ReadableFile> open(const Path& path) const override { return below_->open(path); }
  std::unique_ptr<WritableFile> create(const Path& path, CreateMode mode) override {
    return std::make_unique<File>(below_->create(path, mode), gate_);
  }
  void rename(const Path& from, const Path& to) override { below_->rename(from, to); }
  bool remove(const Path& path) override { return below_->remove(path); }
  std::optional<FileInfo> info(const Path& path) const override { return below_->info(path); }
  std::vector<std::string> list(const Path& directory) const override {
    return below_->list(directory);
  }
  void create_directories(const Path& directory) override { below_->create_directories(directory); }
  void sync_directory(const Path& directory) override { below_->sync_directory(directory); }

 private:
  static constexpr std::chrono::seconds kLongest{20};
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_open = true;
    int waiting = 0;
  };
  class File final : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> below, std::shared_ptr<Gate> gate)
        : below_(std::move(below)), gate_(std::move(gate)) {}
    void write(std::span<const std::byte> bytes) override { below_->write(bytes); }
    void sync() override {
      {
        std::unique_lock lock(gate_->mutex);
        ++gate_->waiting;
        gate_->changed.notify_all();
        gate_->changed.wait_for(lock, kLongest, [&] { return gate_->is_open; });
        --gate_->waiting;
      }
      below_->sync();
    }
    void close() override { below_->close(); }

   private:
    std::unique_ptr<WritableFile> below_;
    std::shared_ptr<Gate> gate_;
  };

  void set_gate(bool is_open) {
    const std::lock_guard lock(gate_->mutex);
    gate_->is_open = is_open;
    gate_->changed.notify_all();
  }

  const std::shared_ptr<FileSystem> below_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

}  // namespace brigade::io
