#pragma once

#include <string>

namespace brigade::tuning {

/// What of the tuning is at work in this program. To have it, an executable links the CMake target
/// `brigade_tuning`; nothing has to be called. It is off in sanitizer builds. docs/design/tuning.md
/// says what each part does and brings.
struct TuningReport {
  /// Freed memory is kept, rather than returned to the system and faulted in again at every step.
  bool allocator = false;
  /// The allocator so tuned: `jemalloc` or `glibc`; empty if `allocator` is false.
  std::string allocator_name;
  /// MKL, where the program has it, takes its fastest kernels on processors of other makers than
  /// Intel too. On an Intel processor this changes nothing. Off under BRIGADE_MATH_DISPATCH=off.
  bool math_dispatch = false;

  /// One line for people: `allocator (jemalloc) and math dispatch`, `allocator (glibc)`, `math
  /// dispatch` or `none`.
  std::string describe() const;
};

/// Looks at the running program. Thread-safety: any thread.
TuningReport report();

}  // namespace brigade::tuning
