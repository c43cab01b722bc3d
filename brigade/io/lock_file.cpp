#include "brigade/io/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"

namespace brigade::io {
namespace {

using base::str_cat;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause(20);
constexpr std::size_t kLongestHolder = 300;

[[noreturn]] void fail(const Path& path, int error) {
  const bool is_forbidden = error == EACCES || error == EPERM || error == EROFS;
  throw Error(is_forbidden ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable, "cannot lock ",
              path, ": ", std::generic_category().message(error),
              "; change its permissions or choose another path");
}

[[noreturn]] void fail_as_foreign(const Path& path) {
  throw Error(ErrorCode::kInvalidArgument, "cannot lock ", path,
              ": it is not a regular file; remove it or choose another path");
}

base::FileDescriptor open_to_lock(const Path& path) {
  // Follows no link, and does not wait for the other end of a pipe.
  base::FileDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (file.is_open()) return file;
  if (errno == ELOOP || errno == EISDIR || errno == ENXIO) fail_as_foreign(path);
  fail(path, errno);
}

bool is_at(const Path& path, int file) {
  struct stat own {
  }, found{};
  if (::fstat(file, &own) < 0 || ::lstat(path.c_str(), &found) < 0) return false;
  return own.st_dev == found.st_dev && own.st_ino == found.st_ino;
}

void check_regular(const Path& path, int file) {
  struct stat status {};
  if (::fstat(file, &status) < 0) fail(path, errno);
  if (!S_ISREG(status.st_mode)) fail_as_foreign(path);
}

bool has_no_locks(int error) {
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

/// Whether this process holds the lock now.
bool try_lock(const Path& path, int file) {
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK || errno == EINTR) return false;
  if (!has_no_locks(errno)) fail(path, errno);
  base::log_warning(path, " cannot be locked: ", std::generic_category().message(errno),
                    "; the user must keep two processes from using ", path.parent_path(),
                    " at the same time");
  return true;
}

// For users: the lock works without it.
void write_holder(int file) {
  const std::string text = str_cat("process ", ::getpid(), " on host ", base::host_name(), "\n");
  const bool is_written =
      ::ftruncate(file, 0) == 0 &&
      ::pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (!is_written) base::log_info("a lock file could not record who holds it");
}

}  // namespace

LockFile::LockFile(Path path, base::FileDescriptor file)
    : path_(std::move(path)), file_(std::move(file)) {}

LockFile::~LockFile() {
  // A process that opened it meanwhile notices, once it has the lock, that the path is gone.
  if (is_at(path_, file_.number())) ::unlink(path_.c_str());
}

std::unique_ptr<LockFile> LockFile::acquire(const Path& path, std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (true) {
    base::FileDescriptor file = open_to_lock(path);
    check_regular(path, file.number());
    // A file that its holder has just removed is useless: others create a new one.
    if (try_lock(path, file.number()) && is_at(path, file.number())) {
      write_holder(file.number());
      return std::unique_ptr<LockFile>(new LockFile(path, std::move(file)));
    }
    if (Clock::now() >= deadline) return nullptr;
    std::this_thread::sleep_for(kPause);  // the system does not notify waiters of a free lock
  }
}

bool LockFile::is_held(const Path& path) {
  const base::FileDescriptor file(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  // A shared lock for a moment: `acquire` tries longer than that.
  return file.is_open() && ::flock(file.number(), LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

std::string LockFile::holder(const Path& path) {
  char text[kLongestHolder] = {};
  const base::FileDescriptor file(
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const ssize_t count = ::pread(file.number(), text, sizeof text, 0);
  std::string line(text, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  line = line.substr(0, line.find('\n'));
  const bool is_readable =
      std::all_of(line.begin(), line.end(), [](char each) { return each >= ' ' && each <= '~'; });
  return line.starts_with("process ") && is_readable ? line : "another process";
}

}  // namespace brigade::io
