#include "brigade/input/tensor_slices.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"

namespace brigade::input {
namespace {

using data::testing::expect_contract;
using data::testing::expect_invalid_argument;
using Numbers = std::vector<std::int64_t>;

Numbers numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kLong).contiguous();
  const auto* first = flat.const_data_ptr<std::int64_t>();
  return Numbers(first, first + flat.numel());
}

TEST(TensorSlices, KeepTheDatasetContract) {
  const auto dataset = from_tensor_slices(at::arange(6, at::kFloat).reshape({3, 2}));
  expect_contract(dataset.map(numbers_of), {{0, 1}, {2, 3}, {4, 5}});
  expect_contract(dataset.batch(2).map(numbers_of), {{0, 1, 2, 3}, {4, 5}});
}

TEST(TensorSlices, LabelsGoWithTheirFeatures) {
  const auto dataset =
      from_tensor_slices(at::arange(8, at::kFloat).reshape({4, 2}), at::arange(4, at::kByte));
  const auto check = [](const LabeledBatch& batch) {
    Numbers numbers = numbers_of(batch.features.select(1, 0));
    EXPECT_TRUE((batch.labels * 2).to(at::kFloat).equal(batch.features.select(1, 0)));
    return numbers;
  };
  expect_contract(dataset.batch(3).map(check, {.parallelism = 2}), {{0, 2, 4}, {6}});
  EXPECT_EQ(dataset.shuffle(4).batch(4).map(check).iterator().next()->size(), 4U);
}

TEST(TensorSlices, AreDetachedFromAutograd) {
  const at::Tensor weights = at::ones({2, 2}).requires_grad_();
  const auto dataset = from_tensor_slices(weights * 2);
  EXPECT_FALSE(dataset.batch(2).iterator().next()->requires_grad());
}

TEST(TensorSlices, RefuseMismatchedLabels) {
  const at::Tensor features = at::ones({3, 2});
  expect_invalid_argument([&] { from_tensor_slices(features, at::zeros({2}, at::kLong)); },
                          "3 features but 2 labels");
  expect_invalid_argument([&] { from_tensor_slices(features, at::zeros({3})); }, "got float [3]");
  expect_invalid_argument(
      [&] {
        from_tensor_slices(features, at::zeros({3, 1}, at::kLong));
      },
      "integers [N]");
  expect_invalid_argument([] { from_tensor_slices(at::ones({})); }, "first dimension");
}

}  // namespace
}  // namespace brigade::input
