#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/io/testing/forwarding_file_system.h"

namespace brigade::io {

/// A file system whose syncs of files wait while its gate is closed: a slow disk, for tests.
///
/// Thread-safety: all functions from any thread.
class GatedFileSystem final : public ForwardingFileSystem {
 public:
  using ForwardingFileSystem::ForwardingFileSystem;

  void close_gate() { set_gate(false); }
  void open_gate() { set_gate(true); }
  /// Returns once a sync waits. Throws kDeadlineExceeded if none comes for 20 seconds.
  void await_sync() {
    std::unique_lock lock(gate_->mutex);
    if (!gate_->changed.wait_for(lock, kLongest, [&] { return gate_->waiting > 0; }))
      throw Error(ErrorCode::kDeadlineExceeded, "no file is synced");
  }

  std::unique_ptr<WritableFile> create(const Path& path, CreateMode mode) override {
    return std::make_unique<File>(ForwardingFileSystem::create(path, mode), gate_);
  }

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

  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

}  // namespace brigade::io
