#include "brigade/tuning/tuning_report.h"

#include "brigade/tuning/internal.h"

namespace brigade::tuning {

std::string TuningReport::describe() const {
  const std::string memory = allocator ? "allocator (" + allocator_name + ")" : "";
  if (!math_dispatch) return allocator ? memory : "none";
  return allocator ? memory + " and math dispatch" : "math dispatch";
}

TuningReport report() {
  const std::string name = tuned_allocator();
  return {.allocator = !name.empty(), .allocator_name = name, .math_dispatch = has_math_dispatch()};
}

}  // namespace brigade::tuning
