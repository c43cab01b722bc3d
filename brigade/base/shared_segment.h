#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "brigade/base/handles.h"

namespace brigade::base {

/// What another process needs to open a segment; it is stored in shared memory. `descriptor` is -1
/// if there is no segment.
struct SegmentHandle {
  /// Random, and written into the segment: on another machine or in another container the same pid
  /// and descriptor may belong to another segment.
  using Nonce = std::array<std::uint64_t, 2>;

  std::int64_t pid = 0;
  std::int32_t descriptor = -1;
  Nonce nonce = {};
};

/// Memory that processes of one host share. It has no name in any file system: a process that may
/// open `/proc/<pid>/fd/<fd>` of its creator can map it, and it is freed with the last process that
/// maps it, however that process ends. A nonce at its end proves that it is the intended segment.
/// Its size is sealed, and it is ordinary memory: whatever another process does with it, those that
/// read it are not stopped. Long ones have huge pages, where the system gives them.
///
/// Thread-safety: a movable value; callers synchronize their accesses to the memory.
class SharedSegment {
 public:
  SharedSegment() = default;
  /// Creates one, filled with zeros. Throws kResourceExhausted, with the size, if there is not
  /// enough memory.
  static SharedSegment make(std::size_t bytes);
  /// Opens one that another process created. Throws kUnavailable with the system's reason, or if
  /// the file has another size or nonce, no seals, or is no ordinary memory; then it is neither
  /// mapped nor written to.
  static SharedSegment open(const SegmentHandle& handle, std::size_t bytes);

  SharedSegment(SharedSegment&&) = default;
  SharedSegment& operator=(SharedSegment&&) = default;

  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  /// The handle with which others open it, as long as its creator's descriptor is open.
  SegmentHandle handle() const;
  /// Closes the descriptor: after that no other process can open it.
  void close_descriptor() { descriptor_.reset(); }

 private:
  void map(int descriptor, std::size_t bytes);

  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* memory) const;
  };

  std::unique_ptr<std::byte, Unmap> memory_;
  std::size_t size_ = 0;
  FileDescriptor descriptor_;  // the creator's
  SegmentHandle::Nonce nonce_ = {};
};

}  // namespace brigade::base
