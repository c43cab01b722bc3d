#include "brigade/distribute/pipeline/stage_message.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include "brigade/device/random_scope.h"
#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

/// Of ten variables, more than a byte has bits.
VariableUse use_of_ten() {
  VariableUse use{.used = VariableSet(10, false), .tied = VariableSet(10, false)};
  use.used[1] = use.used[9] = use.tied[9] = true;
  return use;
}

TEST(StageMessage, IsReadAsItWasMade) {
  const at::Tensor activation = at::rand({2, 3});
  const VariableUse use = use_of_ten();
  const StageMessage read =
      message_from_tensors(to_tensors({.tensor = activation, .use = use}), 10);
  EXPECT_TRUE(at::equal(read.tensor, activation));
  ASSERT_TRUE(read.use);
  EXPECT_EQ(read.use->used, use.used);
  EXPECT_EQ(read.use->tied, use.tied);
  EXPECT_FALSE(message_from_tensors(to_tensors({.tensor = activation}), 10).use);
}

TEST(StageMessage, OfAWorkerWithFewerVariablesIsRefused) {
  const auto tensors = to_tensors({.tensor = at::ones({2}), .use = use_of_ten()});
  EXPECT_EQ(error_from([&] { message_from_tensors(tensors, 1000); }).code(),
            ErrorCode::kFailedPrecondition);
}

TEST(StageMessage, RandomNumbersContinueInTheReceiver) {
  device::ReplicaGenerator sender(1, 0), receiver(2, 0);
  sender.begin_step(5);
  receiver.begin_step(5);
  std::vector<at::Tensor> tensors;
  at::Tensor next;
  {
    const device::RandomScope random(sender);
    at::rand({7});
    tensors = to_tensors({.tensor = at::ones({2})});
    next = at::rand({7});
  }
  const device::RandomScope random(receiver);
  EXPECT_FALSE(at::equal(at::rand({7}), next));
  message_from_tensors(tensors, 10);
  EXPECT_TRUE(at::equal(at::rand({7}), next));
}

}  // namespace
}  // namespace brigade::distribute
