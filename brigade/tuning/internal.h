#pragma once

// Declarations shared by the tuning's files. They use no other library, so that the preloaded
// library works in any program.

namespace brigade::tuning {

/// The allocator that is tuned to keep freed memory: "jemalloc", "glibc", or "" if none is. One of
/// the files allocator_*.cpp defines it; the build chooses which.
const char* tuned_allocator();

/// Whether MKL, if it is in this process, calls our `mkl_serv_intel_cpu_true` instead of its own.
bool has_math_dispatch();

}  // namespace brigade::tuning
