#include "brigade/data/core/error_context.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "brigade/base/error.h"

namespace brigade::data::internal {
namespace {

template <class Thrown>
Error placed(const Thrown& thrown) {
  try {
    try {
      throw thrown;
    } catch (...) {
      rethrow_with_context("element 3: ");
    }
  } catch (const Error& error) {
    return error;
  }
}

TEST(ErrorPlace, ErrorsKeepTheirCode) {
  const Error error = placed(Error(ErrorCode::kDataLoss, "torn"));
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_STREQ(error.what(), "element 3: torn");
}

TEST(ErrorPlace, OtherExceptionsBecomeAborted) {
  EXPECT_EQ(placed(std::runtime_error("no")).code(), ErrorCode::kAborted);
  EXPECT_STREQ(placed(std::runtime_error("no")).what(), "element 3: no");
  EXPECT_STREQ(placed(7).what(), "element 3: an exception that is no std::exception");
}

}  // namespace
}  // namespace brigade::data::internal
