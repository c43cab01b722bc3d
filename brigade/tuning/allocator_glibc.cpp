#include <malloc.h>

#include "brigade/tuning/freed_memory.h"
#include "brigade/tuning/internal.h"

namespace brigade::tuning {
namespace {

// One training step frees its memory, and the next one allocates the same again. By default glibc
// returns large blocks to the system immediately, and the kernel clears every page of them again.
// Calling this again changes nothing.
bool keep_freed_memory() {
  constexpr int kMebibyte = 1 << 20;
  // Blocks are not mapped separately: a mapping is removed when it is freed.
  const bool no_maps = mallopt(M_MMAP_MAX, 0) == 1;
  // The end of the main heap is returned only beyond this size.
  const bool keeps_end = mallopt(M_TRIM_THRESHOLD, 1024 * kMebibyte) == 1;
  // Threads other than the first have heaps of 64 MiB, unmapped when empty unless the padding
  // requires the next one.
  const bool keeps_heaps = mallopt(M_TOP_PAD, 64 * kMebibyte) == 1;
  return no_maps && keeps_end && keeps_heaps;
}

// Before main, so that the first tensors already use memory that will be reused.
__attribute__((constructor)) void tune_at_start() {
  keep_freed_memory();
}

}  // namespace

const char* tuned_allocator() {
  return keep_freed_memory() ? "glibc" : "";
}

// The settings, as glibc has them at the start; a threshold that is set does not grow.
void return_freed_memory() {
  constexpr int kKibibyte = 1 << 10;
  mallopt(M_MMAP_MAX, 65536);
  mallopt(M_MMAP_THRESHOLD, 1024 * kKibibyte);
  mallopt(M_TRIM_THRESHOLD, 128 * kKibibyte);
  mallopt(M_TOP_PAD, 128 * kKibibyte);
}

}  // namespace brigade::tuning
