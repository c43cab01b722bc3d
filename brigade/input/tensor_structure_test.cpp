#include "brigade/input/tensor_structure.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/input/labeled_example.h"

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

TEST(Structure, RefusesIncompatibleBatches) {
  expect_invalid_argument(
      [] {
        Structure<LabeledBatch>::size({at::ones({3, 2}), at::zeros({2}, at::kLong)});
      },
      "one has 3, another 2");
}

data::Dataset<LabeledExample> examples_of(std::int64_t count) {
  return data::from_indexed<LabeledExample>(
      count,
      [](std::int64_t i) {
        return LabeledExample{at::full({2}, i), 10 * i};
      },
      "examples");
}

TEST(Unbatch, GivesExamplesWhoseFeaturesAreViews) {
  auto iterator = examples_of(5).batch(3).unbatch().iterator();
  LabeledExample last = *iterator.next();
  for (std::int64_t i = 1; i < 5; ++i) {
    const LabeledExample example = *iterator.next();
    EXPECT_EQ(example.label, 10 * i);
    EXPECT_EQ(example.features[1].item<float>(), static_cast<float>(i));
    EXPECT_EQ(example.features.storage().is_alias_of(last.features.storage()), i != 3);
    last = example;
  }
  EXPECT_FALSE(iterator.next().has_value());
}

TEST(Unbatch, ReadsLabelsWithGapsBetweenThem) {
  LabeledBatch batch = batch_of(4);
  const at::Tensor wide = at::zeros({4, 3}, at::kLong);
  wide.select(1, 1).copy_(batch.labels);
  batch.labels = wide.select(1, 1);
  EXPECT_EQ(data::Unbatch<LabeledBatch>::element(batch, 2).label, 20);
}

TEST(Unbatch, RefusesLabelsThatAreNotIntegers) {
  expect_invalid_argument(
      [] {
        data::Unbatch<LabeledBatch>::size({at::ones({3, 2}), at::zeros({3, 1}, at::kLong)});
      },
      "labels) if the tensor of the numbers is int64 [N]; this one is int64 [3, 1]");
}

TEST(Structure, ListsOfTensorsAreStackedPartByPart) {
  using List = std::vector<at::Tensor>;
  const auto lists = data::from_elements<List>({{at::ones({2}), at::full({}, 3)},
                                                {at::zeros({2}), at::full({}, 4)},
                                                {at::ones({2}), at::full({}, 5)}});
  auto iterator = lists.batch(2).iterator();
  const std::optional<List> batch = iterator.next();
  ASSERT_EQ(batch->size(), 2U);
  EXPECT_EQ((*batch)[0].sizes(), at::IntArrayRef({2, 2}));
  EXPECT_TRUE((*batch)[1].equal(at::tensor({3, 4}).to((*batch)[1].scalar_type())));

  auto again = lists.batch(2).unbatch().batch(3).iterator();
  EXPECT_EQ((*again.next())[0].sizes(), at::IntArrayRef({3, 2}));
  auto rebatched = lists.batch(2).rebatch(3).iterator();
  EXPECT_EQ((*rebatched.next())[1].sizes(), at::IntArrayRef({3}));
  expect_invalid_argument(
      [] {
        data::Structure<List>::stack({{at::ones(2)}, {at::ones(2), at::ones(2)}});
      },
      "one has 1 tensors, another 2");
}

TEST(Rebatch, CutsAndJoinsTensors) {
  const auto batches = examples_of(7).batch(3);
  auto iterator = batches.rebatch(2).iterator();
  auto expected = examples_of(7).batch(2).iterator();
  while (auto batch = expected.next()) {
    const LabeledBatch found = *iterator.next();
    EXPECT_TRUE(found.features.equal(batch->features));
    EXPECT_TRUE(found.labels.equal(batch->labels));
  }
  EXPECT_FALSE(iterator.next().has_value());
}

TEST(Rebatch, RefusesIncompatibleParts) {
  expect_invalid_argument(
      [] {
        data::Unbatch<at::Tensor>::concatenate({at::ones({2, 3}), at::ones({2, 4})});
      },
      "part 0 is float [2, 3], part 1 is float [2, 4]");
  expect_invalid_argument(
      [] {
        data::Unbatch<at::Tensor>::concatenate({at::ones({2}), at::zeros({2}, at::kLong)});
      },
      "part 1 is");
}

}  // namespace
}  // namespace brigade::input
