#include "brigade/input/tensor_padding.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/input/labeled_example.h"

namespace brigade::input {
namespace {

using data::Dataset;
using data::Padding;
using data::TensorPadding;
using data::testing::expect_invalid_argument;

/// Rows of n times n.
at::Tensor row(std::int64_t length) {
  return at::full({length}, length, at::kLong);
}

bool have_same_values(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

TEST(TensorPadding, PadsRowsToTheLongest) {
  const at::Tensor batch = Padding<at::Tensor>::stack({row(2), row(3), row(0)}, {});
  EXPECT_TRUE(
      have_same_values(batch, at::tensor({2L, 2L, 0L, 3L, 3L, 3L, 0L, 0L, 0L}).view({3, 3})));
}

TEST(TensorPadding, PadsEachDimensionToTheShape) {
  const TensorPadding options{.shape = {{-1, 4}}, .value = -1};
  const at::Tensor batch =
      Padding<at::Tensor>::stack({at::ones({1, 2}), at::ones({3, 1})}, options);
  EXPECT_EQ(batch.sizes(), at::IntArrayRef({2, 3, 4}));
  EXPECT_EQ(batch.sum().item<float>(), 2 + 3 - (24 - 5));
  EXPECT_EQ(batch[0][0][1].item<float>(), 1);
  EXPECT_EQ(batch[0][1][0].item<float>(), -1);
  EXPECT_EQ(batch[1][2][0].item<float>(), 1);
}

TEST(TensorPadding, RefusesWhatDoesNotFit) {
  expect_invalid_argument(
      [] {
        Padding<at::Tensor>::stack({at::ones({3, 7})}, {.shape = {{4, 5}}});
      },
      "shape [3, 7] cannot be padded to [4, 5]");
  expect_invalid_argument(
      [] {
        Padding<at::Tensor>::stack({at::ones({3})}, {.shape = {{4, 5}}});
      },
      "with 1 dimensions cannot be padded to the shape [4, 5]");
  expect_invalid_argument(
      [] {
        Padding<at::Tensor>::stack({row(2), at::ones({2})}, {});
      },
      "element 1 is float [2]");
  expect_invalid_argument([] { Padding<at::Tensor>::check({.shape = {{-2}}}); }, "is -2");
}

TEST(TensorPadding, PadsLabeledExamples) {
  const auto examples = data::from_indexed<LabeledExample>(
      3,
      [](std::int64_t i) {
        return LabeledExample{row(i + 1), 10 * i};
      },
      "examples");
  auto iterator = examples.padded_batch(2, {.padding = {.value = 9}}).iterator();
  const auto batch = iterator.next();
  EXPECT_TRUE(have_same_values(batch->features, at::tensor({1L, 9L, 2L, 2L}).view({2, 2})));
  EXPECT_TRUE(have_same_values(batch->labels, at::tensor({0L, 10L})));
  EXPECT_EQ(iterator.next()->features.sizes(), at::IntArrayRef({1, 3}));
}

TEST(TensorPadding, PadsBucketsToTheirBoundaries) {
  const auto rows = data::from_indexed<at::Tensor>(
      4, [](std::int64_t i) { return row(i + 1); }, "rows");
  const auto buckets = [&](TensorPadding padding) {
    auto iterator =
        rows.bucket_by_sequence_length({.length = [](const at::Tensor& r) { return r.size(0); },
                                        .boundaries = {3, 9},
                                        .batch_sizes = {2, 2, 1},
                                        .pad = data::BucketPadding::kToBoundary,
                                        .padding = padding})
            .iterator();
    iterator.next();
    return *iterator.next();
  };
  EXPECT_EQ(buckets({}).sizes(), at::IntArrayRef({2, 8}));
  EXPECT_EQ(buckets({.shape = {{-1}}}).sizes(), at::IntArrayRef({2, 8}));
  EXPECT_EQ(buckets({.shape = {{5}}}).sizes(), at::IntArrayRef({2, 5}));
}

TEST(TensorPadding, DescribesItself) {
  EXPECT_EQ(Padding<at::Tensor>::describe({}), "");
  EXPECT_EQ(Padding<at::Tensor>::describe({.shape = {{-1, 5}}, .value = 0.5}),
            ", to [-1, 5], with 0.5");
}

}  // namespace
}  // namespace brigade::input
