#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

/// Owners of what the system and C libraries hand out.
namespace brigade::base {

/// Owns a file descriptor, and closes it at its end.
///
/// Thread-safety: a value that moves.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this == &other) return *this;
    reset();
    number_ = other.release();
    return *this;
  }
  ~FileDescriptor() { reset(); }

  /// -1 for none.
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// Gives up ownership: the caller closes the descriptor.
  int release() { return std::exchange(number_, -1); }
  /// Closes it.
  void reset() noexcept {
    if (is_open()) ::close(release());
  }

 private:
  int number_ = -1;
};

template <auto Free>
struct FreeWith {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

/// Owns an object of a C library, which `Free` frees: `Handle<X509, X509_free>`.
template <class T, auto Free>
using Handle = std::unique_ptr<T, FreeWith<Free>>;

}  // namespace brigade::base
