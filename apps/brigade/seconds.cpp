#include "apps/brigade/seconds.h"

#include <cstdint>

#include "apps/brigade/exit_code.h"
#include "brigade/base/strings.h"

namespace brigade::command {

std::chrono::milliseconds to_milliseconds(std::string_view flag, double seconds, ZeroSeconds zero) {
  const bool is_enough = zero == ZeroSeconds::kAllowed ? seconds >= 0.0 : seconds > 0.0;
  if (!(is_enough && seconds <= 1e6)) {
    throw UsageError(base::str_cat(
        flag, " is ", seconds, "; give seconds, ",
        zero == ZeroSeconds::kAllowed ? "0 to 1000000" : "above 0 and up to 1000000"));
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

}  // namespace brigade::command
