#include "brigade/tuning/internal.h"

namespace brigade::tuning {

const char* tuned_allocator() {
  return "";
}

}  // namespace brigade::tuning
