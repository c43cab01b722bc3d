#include "brigade/concurrency/first_error.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace brigade::concurrency {
namespace {

TEST(FirstError, AllCallsAreMadeAndTheFirstErrorIsThrown) {
  FirstError error;
  int calls = 0;
  error.attempt([&] { ++calls; });
  EXPECT_NO_THROW(error.rethrow());
  for (const char* text : {"first", "second"}) {
    error.attempt([&] {
      ++calls;
      throw std::runtime_error(text);
    });
  }
  error.attempt([&] { ++calls; });
  EXPECT_EQ(calls, 4);
  try {
    error.rethrow();
    FAIL();
  } catch (const std::runtime_error& thrown) {
    EXPECT_EQ(std::string(thrown.what()), "first");
  }
}

}  // namespace
}  // namespace brigade::concurrency
