#include "brigade/ps/client/gradient_push.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "brigade/base/testing/error_code.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/ps/testing/small_job.h"

namespace brigade::ps {
namespace {

using testing::small_gradients;

WorkerVariables small_variables(int servers) {
  return {PlacedVariables(testing::small_placement(servers), servers), testing::small_model()};
}

std::vector<std::string> names_of_gradients(const Push& push) {
  std::vector<std::string> names;
  for (const auto& each : push.gradients) names.push_back(each.name);
  return names;
}

TEST(GradientPush, EveryServerGetsThePushOfItsVariables) {
  const WorkerVariables variables = small_variables(3);
  auto gradients = small_gradients(2);
  gradients[0] = comm::to_sparse(
      {.indices = at::tensor({1}, at::kLong), .values = at::full({1, 3}, 2, at::kDouble)}, {2, 3});
  gradients[3].reset();
  check_pushable(variables, gradients);
  const std::vector<Push> pushes = divide_gradients(variables, gradients, 3, std::nullopt);
  ASSERT_EQ(pushes.size(), 3u);
  std::size_t dense = 0;
  for (std::size_t server = 0; server < 3; ++server) {
    for (const auto& each : pushes[server].gradients) {
      const std::size_t i = variables.placed().find(each.name).value();
      EXPECT_EQ(variables[i].server, static_cast<int>(server)) << each.name;
      EXPECT_TRUE(at::equal(each.tensor, gradients[i]));
      ++dense;
    }
  }
  EXPECT_EQ(dense, 2u) << "bias and offset";
  const Push& of_weights = pushes[static_cast<std::size_t>(variables[0].server)];
  ASSERT_EQ(of_weights.rows.size(), 1u);
  EXPECT_EQ(of_weights.rows[0].name, "weights");
  EXPECT_TRUE(at::equal(of_weights.rows[0].indices, at::tensor({1}, at::kLong)));
}

TEST(GradientPush, ValuesTravelInThePushDtypeWhereServersTakeIt) {
  EXPECT_EQ(to_push(at::ones({2}), at::kBFloat16).scalar_type(), at::kBFloat16);
  EXPECT_EQ(to_push(at::ones({2}, at::kHalf), at::kBFloat16).scalar_type(), at::kHalf);
  const at::Tensor own = at::ones({2});
  EXPECT_EQ(to_push(own, std::nullopt).const_data_ptr(), own.const_data_ptr()) << "a copy";
  EXPECT_TRUE(to_push(at::ones({3, 2}).t(), std::nullopt).is_contiguous());
}

TEST(GradientPush, WhatIsAnnouncedHasTheFormsAndTheOrderOfWhatIsPushed) {
  const WorkerVariables variables = small_variables(2);
  EarlyPush early({4, 3, 1, 0});
  const auto announced = announce_gradients(variables, early, 2, at::kBFloat16);
  const auto gradients = small_gradients(3);
  const at::Tensor sent = to_push(gradients[4], at::kBFloat16);
  early.add(gradients[4], sent);
  EXPECT_EQ(early.next(), 3u);
  ASSERT_TRUE(early.begins(gradients));
  const auto pushed = divide_gradients(variables, gradients, 2, at::kBFloat16, early);
  for (std::size_t server = 0; server < 2; ++server) {
    EXPECT_EQ(names_of_gradients(announced[server]), names_of_gradients(pushed[server]));
    for (std::size_t i = 0; i < pushed[server].gradients.size(); ++i) {
      const at::Tensor& form = announced[server].gradients[i].tensor;
      const at::Tensor& gradient = pushed[server].gradients[i].tensor;
      EXPECT_EQ(form.sizes(), gradient.sizes());
      EXPECT_EQ(form.scalar_type(), gradient.scalar_type());
      EXPECT_EQ(form.nbytes(), gradient.nbytes());
    }
  }
  const Push& of_offset = pushed[static_cast<std::size_t>(variables[4].server)];
  EXPECT_EQ(of_offset.gradients.front().name, "offset");
  EXPECT_TRUE(of_offset.gradients.front().tensor.is_same(sent));
}

TEST(GradientPush, GradientsThatDoNotFitAreRefused) {
  const WorkerVariables variables = small_variables(2);
  auto gradients = small_gradients(1);
  gradients[1] = at::ones({4}, at::kDouble);
  const std::string message = base::testing::message_of(
      [&] { check_pushable(variables, gradients); }, ErrorCode::kInvalidArgument);
  EXPECT_NE(message.find("bias"), std::string::npos) << message;
  EXPECT_NE(message.find("Double[4]"), std::string::npos) << message;
}

}  // namespace
}  // namespace brigade::ps
