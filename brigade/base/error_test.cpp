#include "brigade/base/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace brigade {
namespace {

TEST(Error, CarriesCodeAndMessage) {
  const Error error(ErrorCode::kNotFound, "no such thing");
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_STREQ(error.what(), "no such thing");
}

TEST(Error, IsCaughtAsStandardException) {
  EXPECT_THROW(throw Error(ErrorCode::kInternal, "x"), std::runtime_error);
}

TEST(Error, WritesTheMessageFromItsPieces) {
  EXPECT_STREQ(Error(ErrorCode::kInternal, "got ", 3, " of ", 4.5, '.').what(), "got 3 of 4.5.");
  EXPECT_NO_THROW(check_argument(true, "x is ", 0));
  EXPECT_NO_THROW(check_state(true, "x is ", 0));
  const auto thrown = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::pair(error.code(), std::string(error.what()));
    }
    return std::pair(ErrorCode::kInternal, std::string("nothing"));
  };
  EXPECT_EQ(thrown([] { check_argument(false, "x is ", 0); }),
            std::pair(ErrorCode::kInvalidArgument, std::string("x is 0")));
  EXPECT_EQ(thrown([] { check_state(false, "x is ", true); }),
            std::pair(ErrorCode::kFailedPrecondition, std::string("x is true")));
  EXPECT_EQ(thrown([] { refuse("x is ", 0.5); }),
            std::pair(ErrorCode::kInvalidArgument, std::string("x is 0.5")));
}

TEST(ErrorCode, HasOneNameForEach) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    names.insert(to_string(static_cast<ErrorCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(ErrorCode::kInternal) + 1);
  EXPECT_EQ(names.count("UNKNOWN"), 0u);
  EXPECT_EQ(to_string(ErrorCode::kDataLoss), "DATA_LOSS");
}

TEST(CheckArgument, ThrowsInvalidArgumentOnlyIfFalse) {
  EXPECT_NO_THROW(check_argument(true, "fine"));
  try {
    check_argument(false, "batch is 0");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(), "batch is 0");
  }
}

TEST(CheckState, ThrowsFailedPreconditionOnlyIfFalse) {
  EXPECT_NO_THROW(check_state(true, "fine"));
  try {
    check_state(false, "not open");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace brigade
