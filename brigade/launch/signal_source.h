#pragma once

#include <signal.h>

#include <initializer_list>
#include <optional>

#include "brigade/launch/file_descriptor.h"

namespace brigade::launch {

/// While it lives, the signals do not interrupt this thread, nor threads that it starts, but come
/// out of a descriptor that can be waited for together with others.
///
/// Thread-safety: one thread.
class SignalSource {
 public:
  explicit SignalSource(std::initializer_list<int> signals);
  /// Puts back the mask that the thread had.
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  /// Readable while a signal waits.
  int descriptor() const { return descriptor_.number(); }
  /// The next one, or nothing.
  std::optional<int> next();

 private:
  sigset_t former_;
  FileDescriptor descriptor_;
};

}  // namespace brigade::launch
