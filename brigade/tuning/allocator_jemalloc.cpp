#include <jemalloc/jemalloc.h>

#include <iterator>
#include <limits>

#include "brigade/tuning/freed_memory.h"
#include "brigade/tuning/internal.h"

// jemalloc reads this before its first allocation. One training step frees its memory, and the next
// one allocates the same again: memory that decays in between is cleared by the kernel again. Huge
// pages, where the kernel gives them: weights and gradients are read as a whole in each step, and
// small pages make that slower. The environment's MALLOC_CONF takes precedence.
extern "C" {
extern const char* malloc_conf;
__attribute__((visibility("default"))) const char* malloc_conf =
    "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always";
}

namespace brigade::tuning {
namespace {

bool is_kept(const char* option) {
  ssize_t decay = 0;
  size_t size = sizeof decay;
  return mallctl(option, &decay, &size, nullptr, 0) == 0 && decay == -1;
}

/// Sets an option, such as "arena.0.dirty_decay_ms", of each arena that exists: jemalloc sets it
/// for one at a time only.
template <class Value>
void set_in_each_arena(const char* option_of_first, Value value) {
  unsigned arenas = 0;
  size_t size = sizeof arenas, name[3], length = std::size(name);
  if (mallctl("arenas.narenas", &arenas, &size, nullptr, 0) != 0) return;
  if (mallctlnametomib(option_of_first, name, &length) != 0) return;
  for (name[1] = 0; name[1] < arenas; ++name[1])  // one that does not exist yet is an error
    mallctlbymib(name, length, nullptr, nullptr, &value, sizeof value);
}

void set_decay(const char* of_new, const char* of_first) {
  ssize_t decay = 1000;  // milliseconds: several steps of most trainings
  mallctl(of_new, nullptr, nullptr, &decay, sizeof decay);
  set_in_each_arena(of_first, decay);
}

// Where memory is returned at all, jemalloc returns blocks of 8 MiB and more when they are freed,
// and the next step would wait for the kernel to clear them. They are in a separate arena,
// which is made when the first of them is allocated.
void keep_large_blocks_as_long() {
  constexpr size_t kLarge = size_t{8} << 20;
  if (void* const block = mallocx(kLarge, 0)) dallocx(block, 0);
  set_in_each_arena("arena.0.oversize_threshold", std::numeric_limits<size_t>::max());
}

}  // namespace

const char* tuned_allocator() {
  return is_kept("opt.dirty_decay_ms") ? "jemalloc" : "";
}

void return_freed_memory() {
  keep_large_blocks_as_long();
  if (is_kept("opt.dirty_decay_ms")) set_decay("arenas.dirty_decay_ms", "arena.0.dirty_decay_ms");
  if (is_kept("opt.muzzy_decay_ms")) set_decay("arenas.muzzy_decay_ms", "arena.0.muzzy_decay_ms");
}

}  // namespace brigade::tuning
