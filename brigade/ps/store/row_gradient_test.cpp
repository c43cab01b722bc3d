#include "brigade/ps/store/row_gradient.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::ps {
namespace {

at::Tensor row_numbers(std::vector<std::int64_t> indices) {
  return at::tensor(indices, at::kLong);
}

VariableGradient rows_with(std::vector<std::int64_t> indices, double value) {
  const auto count = static_cast<std::int64_t>(indices.size());
  return {.values = at::full({count, 2}, value, at::kFloat),
          .indices = row_numbers(std::move(indices))};
}

/// In bfloat16 itself, 256 + 1 is 256: the ones would be lost one by one.
TEST(VariableGradient, NarrowSumsAreRoundedOnce) {
  std::vector<VariableGradient> gradients = {{.values = at::full({3}, 256, at::kBFloat16)}};
  for (int i = 0; i < 8; ++i) gradients.push_back({.values = at::full({3}, 1, at::kBFloat16)});
  EXPECT_TRUE(
      at::equal(sum_by_tree(gradients, at::kBFloat16).values, at::full({3}, 264, at::kBFloat16)));
}

TEST(VariableGradient, NarrowGradientsOfAWideVariableAreWidenedBeforeTheyAreAdded) {
  const std::vector<VariableGradient> gradients = {{.values = at::full({3}, 256, at::kBFloat16)},
                                                   {.values = at::full({3}, 1, at::kBFloat16)},
                                                   {.values = at::full({3}, 0.125, at::kFloat)}};
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    EXPECT_TRUE(at::equal(sum_by_tree(gradients, dtype).values, at::full({3}, 257.125, dtype)));
    EXPECT_EQ(sum_by_tree({gradients.data(), 1}, dtype).values.scalar_type(), dtype);
  }
  VariableGradient rows = rows_with({1, 4}, 3);
  rows.values = rows.values.to(at::kBFloat16);
  const std::vector<VariableGradient> mixed = {rows, rows_with({4}, 256)};
  const VariableGradient sum = sum_by_tree(mixed, at::kFloat);
  EXPECT_TRUE(at::equal(sum.indices, row_numbers({1, 4})));
  EXPECT_TRUE(at::equal(sum.values.select(1, 0), at::tensor({3.0, 259.0}, at::kFloat)));
}

TEST(VariableGradient, OnlyBfloat16IsPushedForAWiderVariable) {
  EXPECT_TRUE(may_push(at::kFloat, at::kFloat));
  EXPECT_TRUE(may_push(at::kBFloat16, at::kFloat));
  EXPECT_TRUE(may_push(at::kBFloat16, at::kDouble));
  EXPECT_TRUE(may_push(at::kHalf, at::kHalf));
  EXPECT_FALSE(may_push(at::kHalf, at::kFloat));
  EXPECT_FALSE(may_push(at::kFloat, at::kDouble));
  EXPECT_FALSE(may_push(at::kDouble, at::kFloat));
  EXPECT_FALSE(may_push(at::kBFloat16, at::kHalf));
  EXPECT_FALSE(may_push(at::kBFloat16, at::kLong));
}

TEST(VariableGradient, ASumKeepsTheShape) {
  const std::vector<VariableGradient> gradients = {{.values = at::full({2, 3}, 1, at::kFloat)},
                                                   {.values = at::full({2, 3}, 2, at::kFloat)}};
  const VariableGradient sum = sum_by_tree(gradients, at::kFloat);
  EXPECT_FALSE(sum.is_of_rows());
  EXPECT_TRUE(at::equal(sum.values, at::full({2, 3}, 3, at::kFloat)));
  const std::vector<VariableGradient> empty = {{.values = at::zeros({0, 3})},
                                               {.values = at::zeros({0, 3})}};
  EXPECT_EQ(sum_by_tree(empty, at::kFloat).values.sizes(), empty[0].values.sizes());
}

TEST(VariableGradient, SumsOfRowsHaveTheRowsOfAll) {
  const std::vector<VariableGradient> gradients = {rows_with({1, 4}, 1), rows_with({}, 5),
                                                   rows_with({0, 4}, 2)};
  const VariableGradient sum = sum_by_tree(gradients, at::kFloat);
  EXPECT_TRUE(at::equal(sum.indices, row_numbers({0, 1, 4})));
  EXPECT_TRUE(at::equal(sum.values.select(1, 0), at::tensor({2.0, 1.0, 3.0}, at::kFloat)));
}

TEST(VariableGradient, ASumOfRowsAndOfAllIsOfAll) {
  const std::vector<VariableGradient> gradients = {
      rows_with({1}, 1), {.values = at::ones({3, 2})}, rows_with({1, 2}, 2)};
  const VariableGradient sum = sum_by_tree(gradients, at::kFloat);
  EXPECT_FALSE(sum.is_of_rows());
  EXPECT_TRUE(at::equal(sum.values.select(1, 1), at::tensor({1.0, 4.0, 3.0}, at::kFloat)));
}

void expect_row_refusal(const RowGradient& gradient, const char* what) {
  try {
    check_rows(gradient, {4, 2}, at::kFloat);
    FAIL() << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << what;
  }
}

TEST(RowGradient, HasToFitItsVariable) {
  EXPECT_NO_THROW(check_rows({"w", row_numbers({0, 3}), at::rand({2, 2})}, {4, 2}, at::kFloat));
  EXPECT_NO_THROW(check_rows({"w", row_numbers({}), at::rand({0, 2})}, {4, 2}, at::kFloat));
  expect_row_refusal({"w", {}, at::rand({2, 2})}, "no indices");
  expect_row_refusal({"w", row_numbers({0, 3}), {}}, "no values");
  expect_row_refusal({"w", row_numbers({0, 4}), at::rand({2, 2})}, "a row that does not exist");
  expect_row_refusal({"w", row_numbers({-1, 1}), at::rand({2, 2})}, "a negative index");
  expect_row_refusal({"w", row_numbers({3, 0}), at::rand({2, 2})}, "not in order");
  expect_row_refusal({"w", row_numbers({1, 1}), at::rand({2, 2})}, "twice");
  expect_row_refusal({"w", row_numbers({0, 1, 2}), at::rand({2, 2})}, "too few rows");
  expect_row_refusal({"w", row_numbers({0, 1}), at::rand({2, 3})}, "too long rows");
  expect_row_refusal({"w", row_numbers({0, 1}), at::rand({4})}, "not a row for each index");
  expect_row_refusal({"w", row_numbers({0, 1}), at::rand({2, 2}, at::kDouble)}, "another dtype");
  expect_row_refusal({"w", row_numbers({0, 1}).to(at::kInt), at::rand({2, 2})}, "int32");
  expect_row_refusal({"w", row_numbers({0, 1}).view({2, 1}), at::rand({2, 2})}, "two dimensions");
  expect_row_refusal({"w", row_numbers({0, 1}), at::rand({2, 2}).to_sparse()}, "sparse");
  EXPECT_THROW(check_rows({"w", row_numbers({0}), at::rand({1})}, {}, at::kFloat), Error)
      << "a scalar has no rows";
}

TEST(RowQuery, MayRepeatRowsInAnyOrder) {
  EXPECT_NO_THROW(check_rows({"w", row_numbers({3, 0, 3})}, {4, 2}));
  EXPECT_THROW(check_rows({"w", row_numbers({4})}, {4, 2}), Error);
  EXPECT_THROW(check_rows({"w", at::rand({1})}, {4, 2}), Error);
  EXPECT_THROW(check_rows({"w", {}}, {4, 2}), Error);
}

}  // namespace
}  // namespace brigade::ps
