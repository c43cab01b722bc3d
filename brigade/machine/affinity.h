#pragma once

#include "brigade/machine/core_set.h"

namespace brigade::machine {

/// The cores on which the system may run the calling thread.
CoreSet thread_affinity();

/// Keeps the calling thread on some cores for as long as it lives, then puts back the mask that the
/// thread had. Open it before the thread's first tensor operation: OpenMP workers inherit the mask
/// of the thread that first needs them.
///
/// Where the system refuses (a container without the right, cores outside the process's mask) the
/// thread simply stays unpinned, and one warning a process says so: pinning is for speed, never for
/// results. An empty set asks for nothing.
///
/// Thread-safety: open and close it on the same thread, inner scopes first.
class AffinityScope {
 public:
  explicit AffinityScope(const CoreSet& cores);
  ~AffinityScope();
  AffinityScope(const AffinityScope&) = delete;
  AffinityScope& operator=(const AffinityScope&) = delete;

  /// Whether the system took the request.
  bool is_pinned() const { return !before_.empty(); }

 private:
  CoreSet before_;  // empty: nothing to put back
};

}  // namespace brigade::machine
