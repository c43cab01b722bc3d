#pragma once

#include <functional>
#include <string>

#include "brigade/base/error.h"

namespace brigade::cluster::testing {

/// What `call` throws as Brigade's error, as "INVALID_ARGUMENT: message"; "nothing" if it does not.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "nothing";
}

}  // namespace brigade::cluster::testing
