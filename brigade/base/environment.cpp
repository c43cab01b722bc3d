#include "brigade/base/environment.h"

#include <cstdlib>

namespace brigade::base {

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

}  // namespace brigade::base
