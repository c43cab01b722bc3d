#include "brigade/data/core/error_context.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "brigade/base/error.h"

namespace brigade::data::internal {
namespace {

template <class Thrown>
Error with_context(const Thrown& thrown) {
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

TEST(ErrorContext, ErrorsKeepTheirCode) {
  const Error error = with_context(Error(ErrorCode::kDataLoss, "torn"));
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_STREQ(error.what(), "element 3: torn");
}

TEST(ErrorContext, OtherExceptionsBecomeAborted) {
  EXPECT_EQ(with_context(std::runtime_error("no")).code(), ErrorCode::kAborted);
  EXPECT_STREQ(with_context(std::runtime_error("no")).what(), "element 3: no");
  EXPECT_STREQ(with_context(7).what(), "element 3: an exception that is no std::exception");
}

}  // namespace
}  // namespace brigade::data::internal
