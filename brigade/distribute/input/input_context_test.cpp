#include "brigade/distribute/input/input_context.h"

#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

TEST(InputContext, DividesTheGlobalBatch) {
  EXPECT_EQ(InputContext{.num_replicas_in_sync = 4}.get_per_replica_batch_size(32), 8);
  EXPECT_EQ(InputContext{}.get_per_replica_batch_size(7), 7);
}

TEST(InputContext, RefusesUnevenSizesAndNamesTheNearestEvenOnes) {
  const InputContext context{.num_replicas_in_sync = 3};
  const Error error = error_from([&] { context.get_per_replica_batch_size(10); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "9 or 12")) << error.what();
  EXPECT_TRUE(mentions(error_from([&] { context.get_per_replica_batch_size(2); }), " 3 would"));
  EXPECT_EQ(error_from([&] { context.get_per_replica_batch_size(0); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_from([&] { context.get_per_replica_batch_size(-3); }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::distribute
