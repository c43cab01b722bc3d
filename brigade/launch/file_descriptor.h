#pragma once

#include <utility>

namespace brigade::launch {

/// Owns a file descriptor.
///
/// Thread-safety: a value that moves.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    reset();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }
  ~FileDescriptor() { reset(); }

  /// -1 for none.
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void reset() noexcept;

 private:
  int number_ = -1;
};

/// A pipe whose ends close at exec. Their numbers are 10 or more, so that they can be duplicated to
/// low numbers in a child without overwriting one another. Throws kResourceExhausted.
struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};
Pipe make_pipe();

/// Moves the descriptor to a number of 10 or more, with close-on-exec. Throws kResourceExhausted.
FileDescriptor with_high_number(FileDescriptor low);

/// Makes reads from it non-blocking.
void set_non_blocking(const FileDescriptor& descriptor);

}  // namespace brigade::launch
