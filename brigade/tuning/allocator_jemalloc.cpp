#include <jemalloc/jemalloc.h>

#include "brigade/tuning/internal.h"

// jemalloc reads this before its first allocation. One step of training frees what it allocated,
// and the next one asks for the same again: memory that decays between them is cleared by the
// kernel anew. The environment's MALLOC_CONF still wins.
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
