#include "brigade/base/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::base {
namespace {

const Flags kFlagDefaults = {{"task", "chief"}, {"train_dir", ""}};

Flags parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  return parse_flags(static_cast<int>(arguments.size()), arguments.data(), kFlagDefaults);
}

TEST(Flags, HaveTheirDefaultsWhereNoneIsGiven) {
  EXPECT_EQ(parsed({}), kFlagDefaults);
  EXPECT_EQ(parsed({"--train_dir=/tmp/a=b"}),
            (Flags{{"task", "chief"}, {"train_dir", "/tmp/a=b"}}));
}

TEST(Flags, CountOnceByTheirLastValueWhichMayBeEmpty) {
  EXPECT_EQ(parsed({"--task=ps:0", "--task="}), (Flags{{"task", ""}, {"train_dir", ""}}));
}

TEST(Flags, RefuseWhatIsNoneAndNameAll) {
  for (const char* wrong : {"--steps=1", "--task", "task=ps:0", "--=1", "--", ""}) {
    try {
      parsed({wrong});
      FAIL() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("\"" + std::string(wrong) + "\""),
                                               testing::HasSubstr("--task=chief, --train_dir=")));
    }
  }
}

}  // namespace
}  // namespace brigade::base
