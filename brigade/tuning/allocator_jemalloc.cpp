#include <jemalloc/jemalloc.h>

#include <iterator>

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

// Of the arenas that come, and of those that exist: their decay can be set for one at a time only.
void set_decay(const char* of_new, const char* of_first) {
  ssize_t decay = 1000;  // milliseconds: several steps of most trainings
  mallctl(of_new, nullptr, nullptr, &decay, sizeof decay);
  unsigned arenas = 0;
  size_t size = sizeof arenas, name[3], length = std::size(name);
  if (mallctl("arenas.narenas", &arenas, &size, nullptr, 0) != 0) return;
  if (mallctlnametomib(of_first, name, &length) != 0) return;
  for (name[1] = 0; name[1] < arenas; ++name[1])  // one that does not exist yet is an error
    mallctlbymib(name, length, nullptr, nullptr, &decay, sizeof decay);
}

}  // namespace

const char* tuned_allocator() {
  return is_kept("opt.dirty_decay_ms") ? "jemalloc" : "";
}

void return_freed_memory() {
  if (is_kept("opt.dirty_decay_ms")) set_decay("arenas.dirty_decay_ms", "arena.0.dirty_decay_ms");
  if (is_kept("opt.muzzy_decay_ms")) set_decay("arenas.muzzy_decay_ms", "arena.0.muzzy_decay_ms");
}

}  // namespace brigade::tuning
