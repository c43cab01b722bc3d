#include "brigade/tuning/freed_memory.h"
#include "brigade/tuning/internal.h"

namespace brigade::tuning {

const char* tuned_allocator() {
  return "";
}

void return_freed_memory() {}

}  // namespace brigade::tuning
