#include "brigade/distribute/input_options.h"

#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

TEST(InputOptions, PoliciesAreReadByTheirNames) {
  for (const auto policy : {AutoShardPolicy::kAuto, AutoShardPolicy::kFile, AutoShardPolicy::kData,
                            AutoShardPolicy::kHint, AutoShardPolicy::kOff})
    EXPECT_EQ(parse_auto_shard_policy(to_string(policy)), policy);
  const Error error = error_from([] { parse_auto_shard_policy("some"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(says(error, "'some'")) << error.what();
}

}  // namespace
}  // namespace brigade::distribute
