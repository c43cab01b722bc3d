#include "brigade/base/unknown_name.h"

#include <gtest/gtest.h>

namespace brigade::base {
namespace {

TEST(DidYouMean, NamesTheNearestCandidate) {
  EXPECT_EQ(did_you_mean("sead", {"device", "seed"}), "; did you mean 'seed'?");
  EXPECT_EQ(did_you_mean("momentum", {"device", "seed"}), "");
  EXPECT_EQ(did_you_mean("momentum", {"device", "seed"}, "."), ".");
}

TEST(UnknownName, ListsTheKnownOnes) {
  const Error near = unknown_name("loss", "mas", "Losses", {"mae", "mse"});
  EXPECT_EQ(near.code(), ErrorCode::kInvalidArgument);
  EXPECT_STREQ(near.what(), "No loss is called 'mas'; did you mean 'mae'? Losses: mae, mse.");
  const Error far = unknown_name("loss", "hinge", "Losses", {"mae", "mse"});
  EXPECT_STREQ(far.what(), "No loss is called 'hinge'. Losses: mae, mse.");
}

}  // namespace
}  // namespace brigade::base
