#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>

#include "brigade/base/ambient.h"

namespace brigade::device {

/// Carries the ambient context of a replica's thread to the threads that compute for it: on a GPU,
/// autograd runs backward functions and hooks on its own thread of that card, for all replicas
/// there. What is read by `carried` is then the replica's whose backward pass it is. libtorch hands
/// the context over, as it does with grad mode and autocast.
///
/// Thread-safety: open and close it on the same thread, inner scopes first. A libtorch profiler
/// must not be started inside and stopped outside, or the other way around.
class CarriedContext {
 public:
  /// Carries the calling thread's context as it is now.
  CarriedContext();
  /// What still computes for this thread after that, since its backward pass has failed, gets an
  /// error from `carried`.
  ~CarriedContext();
  CarriedContext(const CarriedContext&) = delete;
  CarriedContext& operator=(const CarriedContext&) = delete;

 private:
  friend const void* carried_value(base::AmbientIndex index);
  class Info;
  const std::shared_ptr<Info> info_;
  const c10::DebugInfoGuard guard_;
};

/// Whether autograd computes on other threads than the one that starts a backward pass: if libtorch
/// has a device that is not a CPU. If not, carrying a context is of no use, and libtorch would copy
/// it at each node of the backward pass.
bool autograd_has_threads();

/// The value of a slot in the context that was carried to the calling thread; null if none was.
/// Throws kFailedPrecondition if the thread that carried it has closed its CarriedContext.
const void* carried_value(base::AmbientIndex index);

/// The value of a slot in the calling thread's context, or else in the one that was carried to it.
template <class T>
T* carried(base::AmbientSlot<T> slot) {
  if (T* const own = slot.get()) return own;
  return static_cast<T*>(const_cast<void*>(carried_value(slot.index)));
}

}  // namespace brigade::device
