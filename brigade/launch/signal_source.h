#pragma once

#include <signal.h>

#include <initializer_list>
#include <optional>

#include "brigade/base/handles.h"

namespace brigade::launch {

/// While it lives, the signals are blocked in this thread and in threads that it starts, and are
/// read from a descriptor that can be polled together with others.
///
/// Thread-safety: one thread.
class SignalSource {
 public:
  explicit SignalSource(std::initializer_list<int> signals);
  /// Restores the thread's former signal mask.
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

  /// Readable while a signal is pending.
  int descriptor() const { return descriptor_.number(); }
  /// The next pending signal, or nothing.
  std::optional<int> next();

 private:
  sigset_t former_;
  base::FileDescriptor descriptor_;
};

}  // namespace brigade::launch
