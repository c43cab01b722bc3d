#pragma once

// What the tuning's own files share. They use no other library, so that the preloaded form fits
// into any program.

namespace brigade::tuning {

/// The allocator that is tuned to keep freed memory: "jemalloc", "glibc", or "" if none is. One of
/// the files allocator_*.cpp defines it; the build chooses which.
const char* tuned_allocator();

/// Whether MKL, if there is one in this process, asks our `mkl_serv_intel_cpu_true` rather than its
/// own.
bool has_math_dispatch();

}  // namespace brigade::tuning
