#pragma once

#include "brigade/base/sanitizer.h"

/// Attribute for a function with a simple loop: the compiler emits one version for each vector
/// width, and the program selects the widest one that the machine supports at startup. A file whose
/// loops multiply and add is compiled without contracting the two into one operation
/// (-ffp-contract=off in its CMakeLists.txt), so that all versions give the same bits. Does nothing
/// with sanitizers, whose startup code does not support the selection. Clang cannot select by
/// "arch=x86-64-v4", and g++ has no target "avx512bw"; both mean 512-bit vectors, of bytes too.
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(BRIGADE_HAS_SANITIZER)
#define BRIGADE_VECTOR_CLONES
#elif defined(__clang__)
#define BRIGADE_VECTOR_CLONES __attribute__((target_clones("avx512bw", "avx2", "default")))
#else
#define BRIGADE_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#endif
