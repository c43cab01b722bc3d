#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/file_system.h"

namespace brigade::io {

/// Forwards everything to another file system: a base for those that change what some functions do.
///
/// Thread-safety: as that of the underlying file system.
class ForwardingFileSystem : public FileSystem {
 public:
  /// Throws kInvalidArgument for null.
  explicit ForwardingFileSystem(std::shared_ptr<FileSystem> below) : below_(std::move(below)) {
    check_argument(below_ != nullptr, "A file system of tests needs an underlying one.");
  }

  std::string read(const Path& path) const override { return below_->read(path); }
  std::unique_ptr<ReadableFile> open(const Path& path) const override { return below_->open(path); }
  std::unique_ptr<WritableFile> create(const Path& path, CreateMode mode) override {
    return below_->create(path, mode);
  }
  void rename(const Path& from, const Path& to) override { below_->rename(from, to); }
  bool remove(const Path& path) override { return below_->remove(path); }
  std::optional<FileInfo> info(const Path& path) const override { return below_->info(path); }
  std::optional<FileInfo> entry(const Path& path) const override { return below_->entry(path); }
  std::vector<std::string> list(const Path& directory) const override {
    return below_->list(directory);
  }
  void create_directories(const Path& directory) override { below_->create_directories(directory); }
  std::unique_ptr<HeldFolder> hold(const Path& directory) const override {
    return below_->hold(directory);
  }
  void sync_directory(const Path& directory) override { below_->sync_directory(directory); }

 private:
  const std::shared_ptr<FileSystem> below_;
};

}  // namespace brigade::io
