#include "brigade/base/shared_segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::base {

namespace {

/// The offset of the nonce: after the memory, aligned.
std::size_t nonce_at(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  return (bytes + kLine - 1) & ~(kLine - 1);
}

std::size_t total_of(std::size_t bytes) {
  return nonce_at(bytes) + sizeof(SegmentHandle::Nonce);
}

// Nobody may change the size, or these seals.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// An address that is free at the moment, where a huge page may begin; null if there is none.
void* address_for_huge_pages(std::size_t bytes) {
  const std::size_t reserved = bytes + kHugePage;
  void* const found =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  munmap(found, reserved);
  const auto address = reinterpret_cast<std::uintptr_t>(found);
  return reinterpret_cast<void*>((address + kHugePage - 1) / kHugePage * kHugePage);
}

/// Copies of long messages are faster with them. Where the system has none, or does not know this
/// advice, the pages stay as they are.
void use_huge_pages(void* memory, std::size_t bytes) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE: Linux 6.1; the C library has it later
  if (bytes >= kHugePage) madvise(memory, bytes, kCollapse);
}

SegmentHandle::Nonce random_nonce() {
  SegmentHandle::Nonce nonce = {};
  if (::getrandom(nonce.data(), sizeof nonce, 0) != static_cast<ssize_t>(sizeof nonce)) {
    throw Error(ErrorCode::kUnavailable,
                "The system gives no random numbers: ", std::strerror(errno), ".");
  }
  return nonce;
}

/// Why the file that was opened is not the segment; empty: it is.
std::string difference(int descriptor, const SegmentHandle& handle, std::size_t bytes) {
  constexpr std::size_t kLargest = std::size_t{1} << 48;  // so that sums do not overflow
  if (bytes > kLargest) return "another size";
  struct stat status = {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0) return std::strerror(errno);
  // Also tells it from all other kinds of files: only memory has seals.
  if (::fcntl(descriptor, F_GET_SEALS) != kSeals) return "no sealed memory";
  // Huge pages may be used up when they are written, which is a signal.
  struct statfs file_system = {};
  if (::fstatfs(descriptor, &file_system) != 0) return std::strerror(errno);
  if (file_system.f_type != TMPFS_MAGIC) return "no ordinary memory";
  if (!S_ISREG(status.st_mode) || static_cast<std::size_t>(status.st_size) != total_of(bytes))
    return "another size";
  SegmentHandle::Nonce found = {};
  const ssize_t size =
      ::pread(descriptor, found.data(), sizeof found, static_cast<off_t>(nonce_at(bytes)));
  const bool is_same = size == static_cast<ssize_t>(sizeof found) && found == handle.nonce;
  return is_same ? "" : "another process's memory";
}

/// The segment's file. Throws kUnavailable for any other one.
FileDescriptor opened(const SegmentHandle& handle, std::size_t bytes) {
  const std::string path = str_cat("/proc/", handle.pid, "/fd/", handle.descriptor);
  // It may be any kind of file: do not block on a pipe.
  FileDescriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const std::string reason = difference(descriptor.number(), handle, bytes);
  if (reason.empty()) return descriptor;
  throw Error(ErrorCode::kUnavailable, "The shared memory of process ", handle.pid,
              " cannot be opened (", path, ": ", reason,
              "); where processes may not see each other, use the transport 'gloo'.");
}

}  // namespace

SharedSegment SharedSegment::make(std::size_t bytes) {
  SharedSegment segment;
  segment.nonce_ = random_nonce();
  segment.descriptor_ = FileDescriptor(memfd_create("brigade", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Pages are allocated now, so that a lack of memory is an error here and not a signal later.
  int failure =
      !segment.descriptor_.is_open()
          ? errno
          : posix_fallocate(segment.descriptor_.number(), 0, static_cast<off_t>(total_of(bytes)));
  if (failure == 0 && ::fcntl(segment.descriptor_.number(), F_ADD_SEALS, kSeals) != 0)
    failure = errno;
  if (failure != 0) {
    throw Error(ErrorCode::kResourceExhausted, "Shared memory of ", human_bytes(bytes),
                " cannot be allocated: ", std::strerror(failure), ".");
  }
  segment.map(segment.descriptor_.number(), bytes);
  use_huge_pages(segment.data(), total_of(bytes));
  std::memcpy(segment.data() + nonce_at(bytes), segment.nonce_.data(), sizeof segment.nonce_);
  return segment;
}

SharedSegment SharedSegment::open(const SegmentHandle& handle, std::size_t bytes) {
  const FileDescriptor descriptor = opened(handle, bytes);
  SharedSegment segment;
  segment.map(descriptor.number(), bytes);
  return segment;
}

SegmentHandle SharedSegment::handle() const {
  return {.pid = ::getpid(), .descriptor = descriptor_.number(), .nonce = nonce_};
}

void SharedSegment::map(int descriptor, std::size_t bytes) {
  const std::size_t total = total_of(bytes);
  // Only a hint: if another thread has taken the address meanwhile, the system chooses one.
  void* const hint = total >= kHugePage ? address_for_huge_pages(total) : nullptr;
  void* const address =
      mmap(hint, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (address == MAP_FAILED) {
    throw Error(ErrorCode::kResourceExhausted, "Shared memory of ", human_bytes(bytes),
                " cannot be mapped: ", std::strerror(errno), ".");
  }
  memory_ = {static_cast<std::byte*>(address), Unmap{total}};
  size_ = bytes;
}

void SharedSegment::Unmap::operator()(std::byte* memory) const {
  munmap(memory, bytes);
}

}  // namespace brigade::base
