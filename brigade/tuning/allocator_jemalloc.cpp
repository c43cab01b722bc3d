#include <jemalloc/jemalloc.h>

#include "brigade/tuning/internal.h"

// jemalloc reads this before its first allocation. One training step frees its memory, and the next
// one allocates the same again: memory that decays in between is cleared by the kernel again. The
// environment's MALLOC_CONF takes precedence.
extern "C" {
extern const char* malloc_conf;
__attribute__((visibility("default"))) const char* malloc_conf =
    "dirty_decay_ms:-1,muzzy_decay_ms:-1";
}

namespace brigade::tuning {

const char* tuned_allocator() {
  ssize_t decay = 0;
  size_t size = sizeof decay;
  const bool answers = mallctl("opt.dirty_decay_ms", &decay, &size, nullptr, 0) == 0;
  return answers && decay == -1 ? "jemalloc" : "";
}

}  // namespace brigade::tuning
