#include <jemalloc/jemalloc.h>

#include "brigade/tuning/freed_memory.h"
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
namespace {

bool is_kept(const char* option) {
  ssize_t decay = 0;
  size_t size = sizeof decay;
  return mallctl(option, &decay, &size, nullptr, 0) == 0 && decay == -1;
}

// Of the arenas that exist, and of those that come.
void set_decay(const char* of_all, const char* of_new) {
  ssize_t decay = 1000;  // milliseconds: several steps of most trainings
  mallctl(of_all, nullptr, nullptr, &decay, sizeof decay);
  mallctl(of_new, nullptr, nullptr, &decay, sizeof decay);
}

}  // namespace

const char* tuned_allocator() {
  return is_kept("opt.dirty_decay_ms") ? "jemalloc" : "";
}

void return_freed_memory() {
  static_assert(MALLCTL_ARENAS_ALL == 4096);
  if (is_kept("opt.dirty_decay_ms"))
    set_decay("arena.4096.dirty_decay_ms", "arenas.dirty_decay_ms");
  if (is_kept("opt.muzzy_decay_ms"))
    set_decay("arena.4096.muzzy_decay_ms", "arenas.muzzy_decay_ms");
}

}  // namespace brigade::tuning
