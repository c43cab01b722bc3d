#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace brigade::comm {

/// Memory that processes of one host share. It has no name in any file system: whoever may open
/// `/proc/<pid>/fd/<fd>` of its maker can map it, and it is gone with the last process that has,
/// however that ends.
///
/// Thread-safety: a value that moves; the memory is everybody's own concern.
class SharedSegment {
 public:
  SharedSegment() = default;
  /// A new one of zeros. Throws kResourceExhausted, with the size, if there is no memory for it.
  static SharedSegment make(std::size_t bytes);
  /// The one that process `pid` has under descriptor `fd`. Throws kUnavailable with the system's
  /// reason.
  static SharedSegment open(std::int64_t pid, int fd, std::size_t bytes);

  SharedSegment(SharedSegment&& other) noexcept { swap(other); }
  SharedSegment& operator=(SharedSegment&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedSegment();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// The maker's descriptor; -1 once it is closed, and in segments that were opened.
  int descriptor() const { return descriptor_; }
  /// From here on nobody else can open it.
  void close_descriptor();

 private:
  void map(int descriptor, std::size_t bytes);
  void swap(SharedSegment& other) noexcept;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace brigade::comm
