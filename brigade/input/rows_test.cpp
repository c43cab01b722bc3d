#include "brigade/input/rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"

namespace brigade::input {
namespace {

using data::testing::expect_invalid_argument;

TEST(Rows, AreViewsWithoutAutograd) {
  const at::Tensor rows = at::arange(12, at::kFloat).reshape({4, 3});
  const at::Tensor row = row_of(rows, 2);
  EXPECT_TRUE(row.equal(rows[2]));
  EXPECT_EQ(row.data_ptr(), static_cast<float*>(rows.data_ptr()) + 6);
  EXPECT_FALSE(row.is_view()) << "a tracked view costs autograd's bookkeeping";
}

TEST(Rows, StackingAllRowsGivesTheTensor) {
  const at::Tensor rows = at::arange(24, at::kFloat).reshape({4, 3, 2});
  const at::Tensor stacked =
      stack_rows({row_of(rows, 0), row_of(rows, 1), row_of(rows, 2), row_of(rows, 3)});
  EXPECT_TRUE(stacked.equal(rows));
  EXPECT_NE(stacked.data_ptr(), rows.data_ptr());
  EXPECT_FALSE(stacked.requires_grad());
  EXPECT_FALSE(stacked.is_inference()) << "it must be fit to be saved for backward";
}

TEST(Rows, StackTakesStridedAndScalarRows) {
  const at::Tensor square = at::arange(9, at::kLong).reshape({3, 3});
  EXPECT_TRUE(stack_rows({square.select(1, 0), square.select(1, 2)})
                  .equal(at::arange(9, at::kLong)
                             .reshape({3, 3})
                             .t()
                             .index_select(0, at::arange(0, 3, 2, at::kLong))));
  const at::Tensor scalars = stack_rows({square[0][1], square[2][2]});
  EXPECT_EQ(scalars.sizes(), at::IntArrayRef({2}));
  EXPECT_EQ(scalars[1].item<std::int64_t>(), 8);
  EXPECT_EQ(stack_rows({at::zeros({0, 2})}).sizes(), at::IntArrayRef({1, 0, 2}));
}

TEST(Rows, StackRefusesRowsThatDiffer) {
  expect_invalid_argument(
      [] {
        stack_rows({at::ones({2}), at::ones({2}), at::ones({3})});
      },
      "element 0 is float [2], element 2 is float [3]");
  expect_invalid_argument(
      [] {
        stack_rows({at::ones({2}), at::ones({2}, at::kLong)});
      },
      "one shape and dtype");
  expect_invalid_argument([] { stack_rows({}); }, "no elements");
}

TEST(Rows, BetweenChecksItsRange) {
  const at::Tensor rows = at::ones({4, 3});
  EXPECT_EQ(rows_between(rows, 1, 3).sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(rows_between(rows, 4, 4).sizes(), at::IntArrayRef({0, 3}));
  expect_invalid_argument([&] { rows_between(rows, 3, 5); }, "Rows 3 to 5 of 4");
  expect_invalid_argument([&] { rows_between(rows, -1, 2); }, "Rows -1 to 2");
  expect_invalid_argument([&] { rows_between(at::ones({}), 0, 0); }, "first dimension");
}

}  // namespace
}  // namespace brigade::input
