#include "brigade/device/precision.h"

#include <gtest/gtest.h>

#include <string>

#include "brigade/base/error.h"

namespace brigade::device {
namespace {

TEST(Precision, HasANameEach) {
  for (const std::string& name : precision_names())
    EXPECT_EQ(to_string(precision_from(name)), name);
  EXPECT_EQ(precision_names().size(), 3U);
  EXPECT_EQ(precision_from("fp16"), Precision::kFp16);
}

TEST(Precision, SuggestsANameForAnUnknownOne) {
  try {
    precision_from("bf6");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    const std::string text = error.what();
    EXPECT_NE(text.find("did you mean 'bf16'?"), std::string::npos) << text;
    EXPECT_NE(text.find("full, bf16, fp16"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace brigade::device
