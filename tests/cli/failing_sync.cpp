// Loaded in front of the C library (LD_PRELOAD), a disk that fails for a while: the first
// FAILING_SYNC_TIMES calls of fsync for files that have FAILING_SYNC_PATH in their path fail as on
// a network file system whose server was restarted. With FAILING_FLOCK set it has no locks.
#include <dlfcn.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>

namespace {

std::string path_of(int file) {
  char path[4096];
  const ssize_t length =
      readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof path);
  return length < 0 ? "" : std::string(path, static_cast<std::size_t>(length));
}

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool fails(int file) {
  static const std::string part = setting("FAILING_SYNC_PATH");
  static std::atomic<int> left{std::atoi(setting("FAILING_SYNC_TIMES").c_str())};
  return !part.empty() && path_of(file).find(part) != std::string::npos && left-- > 0;
}

}  // namespace

extern "C" int fsync(int file) {
  static const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"));
  if (!fails(file)) return real(file);
  errno = ESTALE;
  return -1;
}

extern "C" int flock(int file, int operation) {
  static const auto real = reinterpret_cast<int (*)(int, int)>(dlsym(RTLD_NEXT, "flock"));
  if (setting("FAILING_FLOCK").empty()) return real(file, operation);
  errno = ENOLCK;
  return -1;
}
