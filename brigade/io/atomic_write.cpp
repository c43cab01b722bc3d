#include "brigade/io/atomic_write.h"

#include <unistd.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

// Folders without permission were not created by us.
void sync_if_allowed(FileSystem& files, const Path& directory) {
  try {
    files.sync_directory(directory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kPermissionDenied) throw;
  }
}

using base::str_cat;

/// A file next to the target that is removed unless it became the target.
class Temporary {
 public:
  Temporary(FileSystem& files, const Path& target) : files_(files) {
    constexpr int kAttempts = 1000;
    for (int n = 0;; ++n) {
      path_ = target.parent_path() /
              str_cat(".", target.filename().string(), ".", ::getpid(), ".", n, ".tmp");
      try {
        file_ = files_.create(path_, CreateMode::kExclusive);
        return;
      } catch (const Error& error) {
        // Another thread writes the same target, or a crash left its file.
        if (error.code() != ErrorCode::kAlreadyExists || n + 1 == kAttempts) throw;
      }
    }
  }
  ~Temporary() {
    if (is_done_) return;
    file_.reset();
    try {
      files_.remove(path_);
    } catch (const Error&) {  // the error that brought us here matters more
    }
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  template <class Fill>
  void fill(Fill fill) {
    fill(*file_);
    file_->sync();
    file_->close();
    file_.reset();
  }
  void become(const Path& target) {
    files_.rename(path_, target);
    is_done_ = true;
  }

 private:
  FileSystem& files_;
  Path path_;
  std::unique_ptr<WritableFile> file_;
  bool is_done_ = false;
};

/// Passes everything on except `close`, so that the file can still be synced after `fill` closed
/// it.
class NonClosingFile final : public WritableFile {
 public:
  explicit NonClosingFile(WritableFile& file) : file_(file) {}
  void write(std::span<const std::byte> bytes) override { file_.write(bytes); }
  void sync() override { file_.sync(); }
  void close() override {}

 private:
  WritableFile& file_;
};

template <class Fill>
void replace(FileSystem& files, const Path& path, Fill fill, std::string_view call) {
  check_argument(path.has_filename() && path.filename() != "." && path.filename() != "..", call,
                 ": \"", path, "\" names no file");
  Temporary temporary(files, path);
  temporary.fill(fill);
  temporary.become(path);
}

}  // namespace

void atomic_write(FileSystem& files, const Path& path, std::span<const std::byte> bytes) {
  const auto fill = [&](WritableFile& file) { file.write(bytes); };
  replace(files, path, fill, "atomic_write");
  files.sync_directory(path.parent_path());
}

void atomic_write(FileSystem& files, const Path& path,
                  const std::function<void(std::unique_ptr<WritableFile>)>& fill) {
  const auto fill_open = [&](WritableFile& file) { fill(std::make_unique<NonClosingFile>(file)); };
  replace(files, path, fill_open, "atomic_write");
  files.sync_directory(path.parent_path());
}

void atomic_write(FileSystem& files, const Path& path, std::string_view text) {
  atomic_write(files, path, as_bytes(text));
}

void replace_file(FileSystem& files, const Path& path, std::string_view text) {
  const auto fill = [&](WritableFile& file) { file.write(as_bytes(text)); };
  replace(files, path, fill, "replace_file");
}

void create_synced_directories(FileSystem& files, const Path& directory) {
  files.create_directories(directory);
  for (Path path = directory; path.has_relative_path();) {
    path = path.parent_path();
    sync_if_allowed(files, path.empty() ? Path(".") : path);
  }
}

}  // namespace brigade::io
