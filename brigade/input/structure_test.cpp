#include "brigade/input/structure.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"

namespace brigade::input {
namespace {

using data::Structure;
using data::testing::expect_invalid_argument;

LabeledBatch batch_of(std::int64_t count) {
  std::vector<LabeledExample> examples;
  for (std::int64_t i = 0; i < count; ++i) examples.push_back({at::full({2}, i), 10 * i});
  return Structure<LabeledExample>::stack(std::move(examples));
}

TEST(Structure, StacksExamples) {
  const LabeledBatch batch = batch_of(3);
  EXPECT_EQ(Structure<LabeledExample>::size(batch), 3);
  EXPECT_EQ(batch.features.sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(batch.features[2][1].item<float>(), 2);
  EXPECT_EQ(batch.labels.scalar_type(), at::kLong);
  EXPECT_EQ(batch.labels[2].item<std::int64_t>(), 20);
}

TEST(Structure, SlicesAreViewsOfTheBatch) {
  const LabeledBatch batch = batch_of(3);
  const LabeledBatch slice = Structure<LabeledExample>::slice(batch, 1, 3);
  EXPECT_EQ(slice.labels[0].item<std::int64_t>(), 10);
  EXPECT_EQ(slice.features.data_ptr(), batch.features[1].data_ptr());
  const LabeledBatch none = Structure<LabeledBatch>::slice(batch, 3, 3);
  EXPECT_EQ(none.features.sizes(), at::IntArrayRef({0, 2}));
  EXPECT_EQ(none.labels.scalar_type(), at::kLong);
}

TEST(Structure, BatchesOfBatchesNest) {
  const LabeledBatch nested = Structure<LabeledBatch>::stack({batch_of(2), batch_of(2)});
  EXPECT_EQ(nested.features.sizes(), at::IntArrayRef({2, 2, 2}));
  EXPECT_EQ(nested.labels.sizes(), at::IntArrayRef({2, 2}));
}

TEST(Structure, RefusesBatchesThatDoNotFitTogether) {
  expect_invalid_argument(
      [] {
        Structure<LabeledBatch>::size({at::ones({3, 2}), at::zeros({2}, at::kLong)});
      },
      "3 features but 2 labels");
}

}  // namespace
}  // namespace brigade::input
