#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace brigade::comm {

/// How another process finds a segment, as it lies in memory; `descriptor` is -1 where there is
/// none.
struct SegmentHandle {
  /// Random, and written into the segment: the same number of a process and of a descriptor may be
  /// another segment's, on another machine or in another container.
  using Nonce = std::array<std::uint64_t, 2>;

  std::int64_t pid = 0;
  std::int32_t descriptor = -1;
  Nonce nonce = {};
};

/// Memory that processes of one host share. It has no name in any file system: whoever may open
/// `/proc/<pid>/fd/<fd>` of its maker can map it, and it is gone with the last process that has,
/// however that ends. A nonce at its end proves that it is the one that was meant.
///
/// Thread-safety: a value that moves; the memory is everybody's own concern.
class SharedSegment {
 public:
  SharedSegment() = default;
  /// A new one of zeros. Throws kResourceExhausted, with the size, if there is no memory for it.
  static SharedSegment make(std::size_t bytes);
  /// The one that another process made. Throws kUnavailable with the system's reason, or if what is
  /// there has another size or nonce; that is neither mapped nor written to.
  static SharedSegment open(const SegmentHandle& handle, std::size_t bytes);

  SharedSegment(SharedSegment&& other) noexcept { swap(other); }
  SharedSegment& operator=(SharedSegment&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedSegment();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// By which others open it, as long as its maker's descriptor is open.
  SegmentHandle handle() const;
  /// From here on nobody else can open it.
  void close_descriptor();

 private:
  void map(int descriptor, std::size_t bytes);
  void swap(SharedSegment& other) noexcept;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;  // the maker's
  SegmentHandle::Nonce nonce_ = {};
};

}  // namespace brigade::comm
