#include "brigade/input/synthetic.h"

#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"

namespace brigade::input {
namespace {

LabeledBatch all_of(const data::Dataset<LabeledExample>& dataset) {
  return *dataset.batch(dataset.cardinality()).iterator().next();
}

TEST(Synthetic, IsAFunctionOfItsArguments) {
  const LabeledBatch batch = all_of(synthetic(50, {1, 4, 4}, 3, 7));
  const LabeledBatch again = all_of(synthetic(50, {1, 4, 4}, 3, 7));
  const LabeledBatch other = all_of(synthetic(50, {1, 4, 4}, 3, 8));
  EXPECT_EQ(batch.features.sizes(), at::IntArrayRef({50, 1, 4, 4}));
  EXPECT_TRUE(batch.features.equal(again.features) && batch.labels.equal(again.labels));
  EXPECT_FALSE(batch.features.equal(other.features));
  EXPECT_GE(batch.features.min().item<float>(), 0);
  EXPECT_LT(batch.features.max().item<float>(), 1);
  EXPECT_EQ(batch.labels.max().item<std::int64_t>(), 2);
  EXPECT_EQ(batch.labels.min().item<std::int64_t>(), 0);
}

TEST(Synthetic, ClassesAreDistinguishable) {
  const LabeledBatch batch = all_of(synthetic(200, {32}, 2));
  const at::Tensor mean_0 = batch.features.index({batch.labels == 0}).mean(0);
  const at::Tensor mean_1 = batch.features.index({batch.labels == 1}).mean(0);
  const at::Tensor to_0 = (batch.features - mean_0).square().sum(1);
  const at::Tensor to_1 = (batch.features - mean_1).square().sum(1);
  const at::Tensor guess = (to_1 < to_0).to(at::kLong);
  EXPECT_GT(guess.eq(batch.labels).to(at::kFloat).mean().item<float>(), 0.95F);
}

TEST(Synthetic, RefusesBadSizes) {
  using data::testing::expect_invalid_argument;
  expect_invalid_argument([] { synthetic(-1, {2}, 2); }, "-1 examples");
  expect_invalid_argument([] { synthetic(1, {-2}, 2); }, "shape [-2]");
  expect_invalid_argument([] { synthetic(1, {2}, 0); }, "0 classes");
  EXPECT_EQ(synthetic(0, {2}, 2).cardinality(), 0);
}

}  // namespace
}  // namespace brigade::input
