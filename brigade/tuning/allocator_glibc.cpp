#include <malloc.h>

#include "brigade/tuning/internal.h"

namespace brigade::tuning {
namespace {

// One step of training frees what it allocated, and the next one asks for the same again. By
// default glibc hands large pieces back to the system at once, and the kernel clears every page of
// them anew. Calling this again changes nothing.
bool keep_freed_memory() {
  constexpr int kMebibyte = 1 << 20;
  // Nothing is mapped by itself: a mapping is undone when it is freed.
  const bool no_maps = mallopt(M_MMAP_MAX, 0) == 1;
  // The end of the main heap is given back only beyond this much.
  const bool keeps_end = mallopt(M_TRIM_THRESHOLD, 1024 * kMebibyte) == 1;
  // Threads other than the first have heaps of 64 MiB, unmapped when empty unless the padding says
  // that the next is needed.
  const bool keeps_heaps = mallopt(M_TOP_PAD, 64 * kMebibyte) == 1;
  return no_maps && keeps_end && keeps_heaps;
}

// Before main, so that the first tensors already live where they will be reused.
__attribute__((constructor)) void tune_at_start() {
  keep_freed_memory();
}

}  // namespace

const char* tuned_allocator() {
  return keep_freed_memory() ? "glibc" : "";
}

}  // namespace brigade::tuning
