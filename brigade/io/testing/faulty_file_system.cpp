#include "brigade/io/testing/faulty_file_system.h"

#include <mutex>
#include <utility>

#include "brigade/base/strings.h"

namespace brigade::io {

/// Counts operations and decides which ones fail. Shared with the open files, which may outlive the
/// file system.
class FaultyFileSystem::Plan {
 public:
  void inject(Fault fault) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fault_ = fault;
  }
  void heal() {
    const std::lock_guard<std::mutex> lock(mutex_);
    fault_.reset();
  }
  std::size_t operations() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return operations_;
  }
  /// The error of this operation, if it is to fail.
  std::optional<Error> next(std::string_view operation, const Path& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++operations_;
    if (!fault_) return std::nullopt;
    if (fault_->after > 0) {
      --fault_->after;
      return std::nullopt;
    }
    Error error(fault_->code, base::str_cat("cannot ", operation, " ", path, ": injected fault"));
    if (fault_->length == FaultLength::kOnce) fault_.reset();
    return error;
  }
  void check(std::string_view operation, const Path& path) {
    if (std::optional<Error> error = next(operation, path)) throw *error;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Fault> fault_;
  std::size_t operations_ = 0;
};

class FaultyFileSystem::Writer final : public WritableFile {
 public:
  Writer(std::shared_ptr<Plan> plan, Path path, std::unique_ptr<WritableFile> below)
      : plan_(std::move(plan)), path_(std::move(path)), below_(std::move(below)) {}
  void write(std::span<const std::byte> bytes) override {
    if (std::optional<Error> error = plan_->next("write", path_)) {
      below_->write(bytes.first(bytes.size() / 2));
      throw *error;
    }
    below_->write(bytes);
  }
  void sync() override {
    plan_->check("sync", path_);
    below_->sync();
  }
  void close() override {
    plan_->check("close", path_);
    below_->close();
  }

 private:
  std::shared_ptr<Plan> plan_;
  Path path_;
  std::unique_ptr<WritableFile> below_;
};

FaultyFileSystem::FaultyFileSystem(std::shared_ptr<FileSystem> below)
    : ForwardingFileSystem(std::move(below)), plan_(std::make_shared<Plan>()) {}

void FaultyFileSystem::inject(Fault fault) {
  plan_->inject(fault);
}
void FaultyFileSystem::heal() {
  plan_->heal();
}
std::size_t FaultyFileSystem::operations() const {
  return plan_->operations();
}

std::unique_ptr<WritableFile> FaultyFileSystem::create(const Path& path, CreateMode mode) {
  plan_->check("create", path);
  return std::make_unique<Writer>(plan_, path, ForwardingFileSystem::create(path, mode));
}

void FaultyFileSystem::rename(const Path& from, const Path& to) {
  plan_->check("rename", from);
  ForwardingFileSystem::rename(from, to);
}

bool FaultyFileSystem::remove(const Path& path) {
  plan_->check("remove", path);
  return ForwardingFileSystem::remove(path);
}

void FaultyFileSystem::create_directories(const Path& directory) {
  plan_->check("create folder", directory);
  ForwardingFileSystem::create_directories(directory);
}

void FaultyFileSystem::sync_directory(const Path& directory) {
  plan_->check("sync folder", directory);
  ForwardingFileSystem::sync_directory(directory);
}

}  // namespace brigade::io
