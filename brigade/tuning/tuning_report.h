#pragma once

#include <string>

namespace brigade::tuning {

/// Which parts of the tuning are active in this program. To enable it, link the CMake target
/// `brigade_tuning`; no call is needed. It is off in sanitizer builds. docs/design/tuning.md
/// describes each part and its benefit.
struct TuningReport {
  /// Freed memory is kept instead of being returned to the system and faulted in again at every
  /// step.
  bool allocator = false;
  /// The tuned allocator: `jemalloc` or `glibc`; empty if `allocator` is false.
  std::string allocator_name;
  /// MKL, if the program uses it, selects its fastest kernels on processors of other vendors too.
  /// On an Intel processor this changes nothing. Off under BRIGADE_MATH_DISPATCH=off.
  bool math_dispatch = false;

  /// A human-readable line: `allocator (jemalloc) and math dispatch`, `allocator (glibc)`, `math
  /// dispatch` or `none`.
  std::string describe() const;
};

/// The report of the running program. Thread-safety: any thread.
TuningReport report();

}  // namespace brigade::tuning
