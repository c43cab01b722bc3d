#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "brigade/io/file_system.h"

namespace brigade::checkpoint::testing {

/// One process's view of a shared file system; logs which files this process creates.
class CreationLog final : public io::FileSystem {
 public:
  explicit CreationLog(std::shared_ptr<io::FileSystem> below) : below_(std::move(below)) {}

  /// Names of the tensor files created, in order.
  std::vector<std::string> tensor_files() const {
    const std::lock_guard lock(mutex_);
    return created_;
  }

  std::unique_ptr<io::WritableFile> create(const io::Path& path, io::CreateMode mode) override {
    if (path.extension() == ".safetensors") {
      const std::lock_guard lock(mutex_);
      created_.push_back(path.filename().string());
    }
    return below_->create(path, mode);
  }
  std::string read(const io::Path& path) const override { return below_->read(path); }
  std::unique_ptr<io::ReadableFile> open(const io::Path& path) const override {
    return below_->open(path);
  }
  void rename(const io::Path& from, const io::Path& to) override { below_->rename(from, to); }
  bool remove(const io::Path& path) override { return below_->remove(path); }
  std::optional<io::FileInfo> info(const io::Path& path) const override {
    return below_->info(path);
  }
  std::optional<io::FileInfo> entry(const io::Path& path) const override {
    return below_->entry(path);
  }
  std::unique_ptr<io::HeldFolder> hold(const io::Path& directory) const override {
    return below_->hold(directory);
  }
  std::vector<std::string> list(const io::Path& directory) const override {
    return below_->list(directory);
  }
  void create_directories(const io::Path& directory) override {
    below_->create_directories(directory);
  }
  void sync_directory(const io::Path& directory) override { below_->sync_directory(directory); }

 private:
  std::shared_ptr<io::FileSystem> below_;
  mutable std::mutex mutex_;
  std::vector<std::string> created_;
};

}  // namespace brigade::checkpoint::testing
