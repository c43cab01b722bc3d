#include "brigade/input/split.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/input/tensor_structure.h"

namespace brigade::input {
namespace {

using data::testing::expect_invalid_argument;
using Sizes = std::vector<std::int64_t>;

TEST(Split, SizesDifferByAtMostOne) {
  EXPECT_EQ(split_sizes(7, 3), (Sizes{3, 2, 2}));
  EXPECT_EQ(split_sizes(6, 3), (Sizes{2, 2, 2}));
  EXPECT_EQ(split_sizes(2, 4), (Sizes{1, 1, 0, 0}));
  EXPECT_EQ(split_sizes(0, 2), (Sizes{0, 0}));
  EXPECT_EQ(split_sizes(5, 1), (Sizes{5}));
}

TEST(Split, LosesNothing) {
  const LabeledBatch batch{at::arange(14, at::kFloat).reshape({7, 2}), at::arange(7, at::kLong)};
  for (std::int64_t parts = 1; parts < 10; ++parts) {
    std::vector<at::Tensor> features;
    std::vector<at::Tensor> labels;
    for (const LabeledBatch& part : input::split_batch(batch, parts)) {
      EXPECT_EQ(part.features.size(0), part.labels.size(0));
      features.push_back(part.features);
      labels.push_back(part.labels);
    }
    EXPECT_EQ(features.size(), static_cast<std::size_t>(parts));
    EXPECT_TRUE(at::cat(features).equal(batch.features));
    EXPECT_TRUE(at::cat(labels).equal(batch.labels));
  }
}

TEST(Split, EmptyPartsKeepDtypeAndShape) {
  const std::vector<at::Tensor> parts =
      input::split_batch(at::arange(6, at::kDouble).reshape({1, 2, 3}), 2);
  EXPECT_EQ(parts[1].sizes(), at::IntArrayRef({0, 2, 3}));
  EXPECT_EQ(parts[1].scalar_type(), at::kDouble);
}

TEST(Split, CutsListsToo) {
  const std::vector<int> batch{1, 2, 3};
  EXPECT_EQ(input::split_batch(batch, 2), (std::vector<std::vector<int>>{{1, 2}, {3}}));
}

TEST(Split, CutsTuplesAndPairsPartByPart) {
  const std::tuple batch(at::arange(3), std::vector<int>{4, 5, 6},
                         std::pair(at::arange(6).reshape({3, 2}), at::arange(3)));
  EXPECT_EQ(examples_in(batch), 3);
  const auto parts = input::split_batch(batch, 2);
  EXPECT_TRUE(std::get<0>(parts[0]).equal(at::arange(2)));
  EXPECT_EQ(std::get<1>(parts[1]), std::vector<int>{6});
  EXPECT_TRUE(std::get<2>(parts[1]).first.equal(at::arange(4, 6).reshape({1, 2})));
  EXPECT_TRUE(std::get<2>(parts[1]).second.equal(at::arange(2, 3)));
  expect_invalid_argument([] { input::split_batch(std::pair(at::arange(3), at::arange(2)), 2); },
                          "one has 3, another 2");
}

TEST(Split, CutsEachTensorOfAListAlongItsFirstDimension) {
  const std::vector<at::Tensor> batch{at::arange(8).reshape({4, 2}), at::arange(4)};
  EXPECT_EQ(examples_in(batch), 4);
  const auto parts = input::split_batch(batch, 3);
  ASSERT_EQ(parts.size(), 3U);
  for (const auto& part : parts) ASSERT_EQ(part.size(), 2U);
  EXPECT_TRUE(parts[0][0].equal(at::arange(4).reshape({2, 2})));
  EXPECT_TRUE(parts[0][1].equal(at::arange(2)));
  EXPECT_TRUE(parts[2][1].equal(at::arange(3, 4)));
}

TEST(Split, RefusesListsOfTensorsThatAreNoBatch) {
  expect_invalid_argument(
      [] {
        input::split_batch(std::vector<at::Tensor>{at::arange(4), at::arange(3)}, 2);
      },
      "tensor 0 of the list has 4, tensor 1 has 3");
  expect_invalid_argument([] { input::split_batch(std::vector<at::Tensor>(), 2); },
                          "list of no tensors");
}

TEST(Split, RefusesBadCounts) {
  expect_invalid_argument([] { split_sizes(3, 0); }, "over 0 parts");
  expect_invalid_argument([] { split_sizes(-1, 2); }, "-1 examples");
}

}  // namespace
}  // namespace brigade::input
