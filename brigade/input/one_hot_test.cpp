#include "brigade/input/one_hot.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"

namespace brigade::input {
namespace {

using data::testing::expect_invalid_argument;

TEST(OneHot, PutsAOneAtTheLabel) {
  const at::Tensor rows = input::one_hot(at::tensor({2, 0, 1}, at::kLong), 3);
  EXPECT_TRUE(rows.equal(at::eye(3).index({at::tensor({2, 0, 1}, at::kLong)})));
  EXPECT_EQ(input::one_hot(at::tensor({2, 0}, at::kByte), 4, at::kDouble).scalar_type(),
            at::kDouble);
  EXPECT_EQ(input::one_hot(at::ones({2, 3}, at::kInt), 4).sizes(), at::IntArrayRef({2, 3, 4}));
  EXPECT_EQ(input::one_hot(at::ones({0}, at::kLong), 4).sizes(), at::IntArrayRef({0, 4}));
}

TEST(OneHot, RefusesLabelsOutOfRange) {
  expect_invalid_argument(
      [] {
        input::one_hot(at::tensor({0, 3}, at::kLong), 3);
      },
      "label 1 is 3; it must be 0 to 2");
  expect_invalid_argument([] { input::one_hot(at::tensor({-1}, at::kLong), 3); }, "label 0 is -1");
}

TEST(OneHot, RefusesInvalidLabels) {
  expect_invalid_argument([] { input::one_hot(at::ones({2}), 3); }, "tensor of integers");
  expect_invalid_argument([] { input::one_hot(at::ones({2}, at::kLong), 0); }, "0 classes");
}

}  // namespace
}  // namespace brigade::input
