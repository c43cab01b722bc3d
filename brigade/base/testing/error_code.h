#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "brigade/base/error.h"

namespace brigade::base::testing {

/// The code of the Brigade error that `call` throws. A call that does not throw fails the test.
inline ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "did not throw";
  return ErrorCode::kInternal;
}

/// The message of the Brigade error that `call` throws with this code; "another code" or "no error"
/// otherwise.
inline std::string message_of(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    return error.code() == code ? error.what() : "another code";
  }
  return "no error";
}

}  // namespace brigade::base::testing
