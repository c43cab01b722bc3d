#pragma once

/// Before a function with a plain loop: the compiler makes it once for each width of vectors, and
/// the program picks the widest of its machine when it starts. Files that use it are compiled
/// without contraction of a multiplication and an addition into one (CMakeLists.txt), so that all
/// clones give the same bits. The sanitizers' start-up does not bear the picking.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BRIGADE_IMAGE_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define BRIGADE_IMAGE_VECTOR_CLONES
#endif
