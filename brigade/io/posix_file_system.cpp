#include "brigade/io/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <limits>
#include <system_error>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

using base::str_cat;

struct Explanation {
  ErrorCode code;
  std::string_view advice;
};

Explanation explain(int error) {
  switch (error) {
    case ENOENT:
      return {ErrorCode::kNotFound, "check the path"};
    case EEXIST:
    case ENOTEMPTY:
      return {ErrorCode::kAlreadyExists, "remove the existing file or choose another name"};
    case EACCES:
    case EPERM:
    case EROFS:
      return {ErrorCode::kPermissionDenied, "change its permissions or choose another path"};
    case ENOSPC:
    case EDQUOT:
      return {ErrorCode::kResourceExhausted, "free space or choose another path"};
    case EFBIG:
      return {ErrorCode::kResourceExhausted, "raise the file size limit (ulimit -f)"};
    case EMFILE:
    case ENFILE:
      return {ErrorCode::kResourceExhausted, "raise the limit of open files (ulimit -n)"};
    case ENOMEM:
      return {ErrorCode::kResourceExhausted, "free memory"};
    case EIO:
      return {ErrorCode::kDataLoss, "the device failed: check it"};
    case ENOTDIR:
      return {ErrorCode::kInvalidArgument, "a part of the path is a file, not a folder"};
    case EISDIR:
      return {ErrorCode::kInvalidArgument, "name a file, not a folder"};
    case ENXIO:  // a socket, or a named pipe without a reader
      return {ErrorCode::kInvalidArgument, "name a regular file"};
    case ENAMETOOLONG:
    case ELOOP:
    case EINVAL:
    case EXDEV:
      return {ErrorCode::kInvalidArgument, "choose another path"};
    default:
      return {ErrorCode::kUnavailable, "try again"};
  }
}

/// A string longer than any path is not a path, and may be very long.
std::string shown(const Path& path) {
  constexpr std::size_t kLongest = 4096;
  if (path.empty()) return "\"\"";
  return path.native().size() > kLongest ? base::shortened(path.native()) : path.string();
}

[[noreturn]] void fail(std::string_view action, const Path& path, int error) {
  const Explanation explanation = explain(error);
  throw Error(explanation.code, "cannot ", action, " ", shown(path), ": ",
              std::generic_category().message(error), "; ", explanation.advice);
}

std::string_view kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return S_ISSOCK(mode) ? "a socket" : "no file";
}

[[noreturn]] void refuse_kind(std::string_view action, const Path& path, mode_t mode) {
  throw Error(ErrorCode::kInvalidArgument, "cannot ", action, " ", path, ": it is ", kind_of(mode),
              ", which may have no end or keep its reader waiting; name a regular file");
}

/// Repeats a system call that a signal interrupted.
template <class Call>
auto retried(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

base::FileDescriptor opened(std::string_view action, const Path& path, int flags) {
  const int number = retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (number < 0) fail(action, path, errno);
  return base::FileDescriptor(number);
}

/// A regular file, open for reading. O_NONBLOCK: otherwise `open` would wait for a named pipe.
class FileToRead {
 public:
  explicit FileToRead(const Path& path) : file_(opened("read", path, O_RDONLY | O_NONBLOCK)) {
    struct stat status {};
    if (::fstat(file_.number(), &status) < 0) fail("read", path, errno);
    if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
    if (!S_ISREG(status.st_mode)) refuse_kind("read", path, status.st_mode);
    size_ = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
  }
  int number() const { return file_.number(); }
  std::uint64_t size() const { return size_; }

 private:
  base::FileDescriptor file_;
  std::uint64_t size_ = 0;
};

/// A buffer for a complete file.
std::string buffer_for(const Path& path, std::uint64_t bytes) {
  try {
    return std::string(bytes, '\0');
  } catch (const std::exception&) {  // no memory, or more than a string can hold
    throw Error(ErrorCode::kResourceExhausted, "cannot read ", path, ": it has ",
                base::human_bytes(bytes), ", for which there is no memory; is it the right file?");
  }
}

FileInfo info_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return {FileKind::kDirectory, 0};
  if (S_ISLNK(status.st_mode)) return {FileKind::kLink, 0};
  if (!S_ISREG(status.st_mode)) return {FileKind::kOther, 0};
  return {FileKind::kFile, static_cast<std::uint64_t>(status.st_size)};
}

bool is_not_found(int error) {
  return error == ENOENT || error == ENOTDIR;
}

std::optional<FileInfo> look_at(const Path& path, int (*look)(const char*, struct stat*)) {
  struct stat status {};
  if (look(path.c_str(), &status) == 0) return info_of(status);
  if (is_not_found(errno)) return std::nullopt;
  fail("look at", path, errno);
}

/// The names in an open folder.
std::vector<std::string> names_in(int folder, const Path& path) {
  // Another descriptor, which the stream closes.
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) fail("list", path, errno);
  const base::Handle<DIR, ::closedir> stream(::fdopendir(copy));
  if (stream == nullptr) {
    const int error = errno;
    ::close(copy);
    fail("list", path, error);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) fail("list", path, errno);
  std::sort(names.begin(), names.end());
  return names;
}

/// Removes `name` from an open folder if it is a regular file. A file that replaces it between the
/// two calls loses its name in this folder and nothing else. Returns whether the name is gone.
bool remove_regular(int folder, const Path& path, const std::string& name) {
  struct stat status {};
  if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0) {
    if (errno == ENOENT) return true;
    fail("look at", path / name, errno);
  }
  if (!S_ISREG(status.st_mode)) return false;
  if (::unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) return true;
  fail("remove", path / name, errno);
}

int flag_of(CreateMode mode) {
  if (mode == CreateMode::kOverwrite) return 0;
  return mode == CreateMode::kExclusive ? O_EXCL : O_TRUNC;
}

class PosixHeldFolder final : public HeldFolder {
 public:
  explicit PosixHeldFolder(const Path& path)
      : path_(path), folder_(opened("open folder", path, O_PATH | O_DIRECTORY)) {}

  // While it is open, no other file can get its number.
  bool is_unchanged() const override {
    struct stat held {};
    if (::fstat(folder_.number(), &held) < 0) fail("look at", path_, errno);
    struct stat found {};
    if (::stat(path_.c_str(), &found) < 0) {
      if (is_not_found(errno) || errno == ESTALE || errno == ELOOP) return false;
      fail("look at", path_, errno);
    }
    return held.st_dev == found.st_dev && held.st_ino == found.st_ino;
  }

 private:
  Path path_;
  base::FileDescriptor folder_;
};

class PosixWritableFile final : public WritableFile {
 public:
  // O_NONBLOCK: otherwise `open` would wait for a reader of a named pipe.
  PosixWritableFile(const Path& path, int flags)
      : path_(path), file_(opened("create", path, flags | O_NONBLOCK)) {
    struct stat status {};
    if (::fstat(file_.number(), &status) < 0) fail("create", path, errno);
    const bool can_be_written = S_ISREG(status.st_mode) || S_ISCHR(status.st_mode);
    if (!can_be_written) refuse_kind("create", path, status.st_mode);
  }

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written =
          retried([&] { return ::write(file_.number(), bytes.data(), bytes.size()); });
      if (written < 0) fail("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      size_ += written;
    }
    if (size_ - writeback_offset_ >= kWritebackBytes) start_writeback();
  }
  void sync() override {
    if (retried([&] { return ::fdatasync(file_.number()); }) < 0) fail("sync", path_, errno);
  }
  void close() override {
    // On Linux the descriptor is closed whatever close returns, so it is never closed twice.
    if (::close(file_.release()) < 0 && errno != EINTR) fail("close", path_, errno);
  }

 private:
  static constexpr off_t kWritebackBytes = off_t{4} << 20;

  /// Starts writing the data to disk in the background, so that `sync` has little left to wait for.
  /// `sync` still reports disk errors.
  void start_writeback() {
    ::sync_file_range(file_.number(), writeback_offset_, size_ - writeback_offset_,
                      SYNC_FILE_RANGE_WRITE);
    writeback_offset_ = size_;
  }

  Path path_;
  base::FileDescriptor file_;
  off_t size_ = 0;
  off_t writeback_offset_ = 0;
};

class PosixReadableFile final : public ReadableFile {
 public:
  explicit PosixReadableFile(const Path& path) : path_(path), file_(path) {}
  std::size_t read(std::span<std::byte> buffer) override {
    std::size_t filled = 0;
    while (filled < buffer.size()) {
      const ssize_t got = retried(
          [&] { return ::read(file_.number(), buffer.data() + filled, buffer.size() - filled); });
      if (got < 0) fail("read", path_, errno);
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    return filled;
  }
  void seek(std::uint64_t offset) override {
    const bool fits = offset <= static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    if (!fits) fail("seek in", path_, EINVAL);
    if (::lseek(file_.number(), static_cast<off_t>(offset), SEEK_SET) < 0) {
      fail("seek in", path_, errno);
    }
  }

 private:
  Path path_;
  FileToRead file_;
};

class PosixFileSystem final : public FileSystem {
 public:
  std::string read(const Path& path) const override {
    const FileToRead file(path);
    // One byte more than the size, so that the end of a file that did not grow is seen without
    // growing the buffer.
    std::string content = buffer_for(path, file.size() + 1);
    std::size_t filled = 0;
    while (true) {
      const ssize_t got = retried(
          [&] { return ::read(file.number(), content.data() + filled, content.size() - filled); });
      if (got < 0) fail("read", path, errno);
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
      if (filled == content.size()) content.resize(2 * filled + (1 << 16));
    }
    content.resize(filled);
    return content;
  }

  std::unique_ptr<ReadableFile> open(const Path& path) const override {
    return std::make_unique<PosixReadableFile>(path);
  }

  std::unique_ptr<WritableFile> create(const Path& path, CreateMode mode) override {
    return std::make_unique<PosixWritableFile>(path, O_WRONLY | O_CREAT | flag_of(mode));
  }

  void rename(const Path& from, const Path& to) override {
    if (std::rename(from.c_str(), to.c_str()) < 0) {
      fail(str_cat("rename ", from.string(), " to"), to, errno);
    }
  }

  bool remove(const Path& path) override {
    if (std::remove(path.c_str()) == 0) return true;
    if (errno == ENOENT) return false;
    fail("remove", path, errno);
  }

  std::optional<FileInfo> info(const Path& path) const override { return look_at(path, ::stat); }
  std::optional<FileInfo> entry(const Path& path) const override { return look_at(path, ::lstat); }

  std::vector<std::string> list(const Path& directory) const override {
    std::error_code error;
    std::vector<std::string> names;
    std::filesystem::directory_iterator entry(directory, error);
    while (!error && entry != std::filesystem::directory_iterator()) {
      names.push_back(entry->path().filename().string());
      entry.increment(error);
    }
    if (error) fail("list", directory, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  void create_directories(const Path& directory) override {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) fail("create folder", directory, error.value());
  }

  void create_directory(const Path& directory) override {
    if (::mkdir(directory.c_str(), 0777) < 0) fail("create folder", directory, errno);
  }

  FolderSweep remove_files(const Path& directory, const IsOwnName& is_own) override {
    const base::FileDescriptor folder(retried([&] {
      return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }));
    if (!folder.is_open()) {
      // A link is ELOOP or, as O_DIRECTORY is looked at first, ENOTDIR.
      if (is_not_found(errno) || errno == ELOOP) return {.is_folder = false, .left = {}};
      fail("open folder", directory, errno);
    }
    FolderSweep sweep;
    for (const std::string& name : names_in(folder.number(), directory)) {
      if (!is_own(name) || !remove_regular(folder.number(), directory, name))
        sweep.left.push_back(name);
    }
    return sweep;
  }

  std::unique_ptr<HeldFolder> hold(const Path& directory) const override {
    return std::make_unique<PosixHeldFolder>(directory);
  }

  void sync_directory(const Path& directory) override {
    const auto folder =
        opened("sync folder", directory.empty() ? Path(".") : directory, O_RDONLY | O_DIRECTORY);
    // Some file systems cannot sync folders and return EINVAL: there is nothing more to do.
    if (retried([&] { return ::fsync(folder.number()); }) < 0 && errno != EINVAL) {
      fail("sync folder", directory, errno);
    }
  }
};

}  // namespace

std::shared_ptr<FileSystem> posix_file_system() {
  return std::make_shared<PosixFileSystem>();
}

}  // namespace brigade::io
