#include "brigade/input/to_device.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/input/labeled_example.h"

namespace mine {

struct Pair {
  at::Tensor left, right;
  int number = 0;
};

template <class Change>
Pair map_tensors(const Pair& pair, const Change& change) {
  return {change(pair.left), change(pair.right), pair.number};
}

}  // namespace mine

namespace brigade::input {
namespace {

const c10::Device kMeta(c10::kMeta);  // a device without memory, which every machine has

TEST(ToDevice, CopiesEachTensorOfABatch) {
  const LabeledBatch batch{at::ones({2, 3}), at::zeros({2}, at::kLong)};
  const LabeledBatch there = to_device(batch, kMeta);
  EXPECT_EQ(there.features.device(), kMeta);
  EXPECT_EQ(there.features.sizes(), batch.features.sizes());
  EXPECT_EQ(there.labels.device(), kMeta);
  EXPECT_EQ(there.labels.scalar_type(), at::kLong);
  EXPECT_EQ(to_device(at::ones({1}), kMeta).device(), kMeta);
}

TEST(ToDevice, ATensorOnTheDeviceIsUnchanged) {
  const at::Tensor here = at::ones({2});
  EXPECT_TRUE(to_device(here, c10::Device(c10::kCPU)).is_same(here));
}

TEST(ToDevice, ListsHaveNoTensors) {
  EXPECT_EQ(to_device(std::vector<int>{1, 2}, kMeta), (std::vector<int>{1, 2}));
}

TEST(ToDevice, TuplesAndPairsAreCopiedPartByPart) {
  const std::tuple batch(at::ones({2}), std::vector<std::int64_t>{4, 5},
                         std::pair(mine::Pair{at::ones({1}), at::ones({2}), 7},
                                   LabeledBatch{at::ones({2, 3}), at::zeros({2}, at::kLong)}));
  const auto there = to_device(batch, kMeta);
  EXPECT_EQ(std::get<0>(there).device(), kMeta);
  EXPECT_EQ(std::get<1>(there), (std::vector<std::int64_t>{4, 5}));
  const auto& [own, labeled] = std::get<2>(there);
  EXPECT_EQ(own.left.device(), kMeta);
  EXPECT_EQ(own.number, 7);
  EXPECT_EQ(labeled.labels.device(), kMeta);
}

TEST(ToDevice, PartsAreChangedInTheirOrder) {
  int number = 0;
  const auto count = [&](const at::Tensor&) { return at::full({}, number++); };
  const at::Tensor one = at::ones({1});
  const auto changed = each_tensor(std::tuple(one, std::pair(one, one), one), count);
  EXPECT_EQ(std::get<0>(changed).item<int>(), 0);
  EXPECT_EQ(std::get<1>(changed).first.item<int>(), 1);
  EXPECT_EQ(std::get<1>(changed).second.item<int>(), 2);
  EXPECT_EQ(std::get<2>(changed).item<int>(), 3);
}

TEST(ToDevice, CustomBatchesAreCopiedByTheirOwnFunction) {
  const mine::Pair there = to_device(mine::Pair{at::ones({1}), at::ones({2}), 7}, kMeta);
  EXPECT_EQ(there.left.device(), kMeta);
  EXPECT_EQ(there.right.device(), kMeta);
  EXPECT_EQ(there.number, 7);
}

}  // namespace
}  // namespace brigade::input
