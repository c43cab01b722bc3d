#pragma once

#include <gtest/gtest.h>

#include <functional>

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

}  // namespace brigade::base::testing
