#pragma once

#include "brigade/machine/core_set.h"

namespace brigade::machine {

/// The cores on which the system may run the calling thread.
CoreSet thread_affinity();

/// Lets the system run the calling thread on these cores only, from now on. Returns false, with one
/// warning per process in the log, if the system refuses; the thread stays where it is.
bool set_thread_affinity(const CoreSet& cores);

/// The system's number of the calling thread.
int thread_number();
/// `set_thread_affinity` for the thread with this number. If it sleeps, it wakes on these cores.
bool set_thread_affinity(const CoreSet& cores, int thread);

/// Pins the calling thread to some cores while it lives, then restores the thread's former mask.
/// Open it before the thread's first tensor operation: OpenMP workers inherit the mask of the
/// thread that first needs them.
///
/// If the system refuses (a container without permission, cores outside the process's mask), the
/// thread stays unpinned and one warning per process is logged: pinning affects speed, not results.
/// An empty set does nothing.
///
/// Thread-safety: open and close it on the same thread, inner scopes first.
class AffinityScope {
 public:
  explicit AffinityScope(const CoreSet& cores);
  ~AffinityScope();
  AffinityScope(const AffinityScope&) = delete;
  AffinityScope& operator=(const AffinityScope&) = delete;

  /// Whether the thread is pinned.
  bool is_pinned() const { return !before_.empty(); }

 private:
  CoreSet before_;  // empty: nothing to restore
};

}  // namespace brigade::machine
