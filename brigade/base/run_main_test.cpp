#include "brigade/base/run_main.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "brigade/base/error.h"

namespace brigade::base {
namespace {

TEST(RunMain, ReturnsZeroOrWhatTheProgramReturns) {
  EXPECT_EQ(run_main([] {}), 0);
  EXPECT_EQ(run_main([] { return 7; }), 7);
}

/// A program that ends by itself: real standard error, a real exit code.
template <class Program>
void end_as(Program program) {
  std::exit(run_main(program));
}

TEST(RunMainDeathTest, AnErrorEndsWithItsTextAndTheCommandsCodes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_as([] { throw Error(ErrorCode::kNotFound, "no file a.pt; make one"); }),
              ::testing::ExitedWithCode(1), "^[^\n]*: error: no file a.pt; make one\n$");
  EXPECT_EXIT(end_as([] { throw Error(ErrorCode::kInvalidArgument, "two\nlines"); }),
              ::testing::ExitedWithCode(2), "^[^\n]*: error: two lines\n$");
}

TEST(RunMainDeathTest, OthersExceptionsEndWithTheirFirstLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_as([] { throw std::runtime_error("bad shape\nframe #0: here"); }),
              ::testing::ExitedWithCode(1), "^[^\n]*: error: bad shape\n$");
  EXPECT_EXIT(end_as([] { throw 42; }), ::testing::ExitedWithCode(1), "not a std::exception");
  EXPECT_EXIT(end_as([] { throw std::bad_alloc(); }), ::testing::ExitedWithCode(1),
              "out of memory");
}

TEST(RunMainDeathTest, LostOutputIsAFailure) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_as([] {
                if (std::freopen("/dev/full", "w", stdout) == nullptr) std::abort();
                std::ios::sync_with_stdio(false);
                std::cout << "a result";
              }),
              ::testing::ExitedWithCode(1), "standard output could not be written");
}

}  // namespace
}  // namespace brigade::base
