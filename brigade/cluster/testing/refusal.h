#pragma once

#include <functional>
#include <string>

#include "brigade/base/error.h"

namespace brigade::cluster::testing {

/// The Brigade error that `call` throws, as "INVALID_ARGUMENT: message"; "nothing" if it does not.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "nothing";
}

}  // namespace brigade::cluster::testing
