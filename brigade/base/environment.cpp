#include "brigade/base/environment.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace brigade::base {

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::string host_name() {
  std::array<char, 256> name{};
  const bool has_name = ::gethostname(name.data(), name.size() - 1) == 0;
  return has_name ? name.data() : "localhost";
}

}  // namespace brigade::base
