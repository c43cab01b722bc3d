#include "brigade/distribute/share_function.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

const c10::Device kCpu(c10::kCPU);

/// What is drawn for a share: from the context, and by a tensor operation.
struct Drawn {
  std::uint64_t number = 0;
  double tensor = 0;
  bool operator==(const Drawn&) const = default;
};

Drawn drawn_for(const ShareId& id) {
  Drawn drawn;
  in_share_context(id, kCpu, [&](ShareContext& context) {
    drawn.number = context.rng();
    drawn.tensor = at::rand({1}, at::kDouble).item<double>();
  });
  return drawn;
}

TEST(ShareFunction, RandomNumbersBelongToTheShare) {
  const ShareId id{.seed = 3, .replica = 1, .epoch = 2, .step = 7};
  EXPECT_EQ(drawn_for(id), drawn_for(id));
  for (const ShareId& other : {ShareId{4, 1, 2, 7}, ShareId{3, 0, 2, 7}, ShareId{3, 1, 1, 7},
                               ShareId{3, 1, 2, 8}, ShareId{3, 2, 1, 7}, ShareId{2, 1, 3, 7}}) {
    EXPECT_NE(drawn_for(id).number, drawn_for(other).number);
    EXPECT_NE(drawn_for(id).tensor, drawn_for(other).tensor);
  }
}

TEST(ShareFunction, KnowsItsShareAndMakesNoGraph) {
  in_share_context({.replica = 1, .epoch = 2, .step = 7}, kCpu, [](ShareContext& context) {
    EXPECT_EQ(context.replica, 1);
    EXPECT_EQ(context.epoch, 2u);
    EXPECT_EQ(context.step, 7u);
    EXPECT_EQ(context.device, kCpu);
    EXPECT_FALSE(at::GradMode::is_enabled());
  });
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(ShareFunction, ErrorsNameTheShare) {
  const Error error = error_from([] {
    in_share_context({.replica = 1, .epoch = 2, .step = 7}, kCpu,
                     [](ShareContext&) { throw std::runtime_error("no picture"); });
  });
  EXPECT_EQ(error.code(), ErrorCode::kAborted);
  EXPECT_TRUE(says(error, "replica 1 at step 7 of epoch 2: no picture")) << error.what();
}

TEST(ShareFunction, KeepsTheNumberOfExamples) {
  EXPECT_NO_THROW(check_share_size(3, 3));
  EXPECT_EQ(error_from([] { check_share_size(3, 2); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::distribute
