#pragma once

/// Attribute for a function with a simple loop: the compiler emits one version for each vector
/// width, and the program selects the widest one that the machine supports at startup. Files that
/// use it are compiled without contracting a multiplication and an addition into one operation
/// (CMakeLists.txt), so that all versions give the same bits. Not used with sanitizers, whose
/// startup code does not support the selection.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BRIGADE_IMAGE_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define BRIGADE_IMAGE_VECTOR_CLONES
#endif
