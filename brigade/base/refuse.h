#pragma once

#include <string>

#include "brigade/base/error.h"

namespace brigade {

/// Throws `Error{kInvalidArgument, message}`: `check_argument` for a message that is expensive to
/// make, or a condition that an `if` says better.
[[noreturn]] inline void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

}  // namespace brigade
