#include "brigade/input/named_tensors.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/input/split.h"
#include "brigade/input/tensor_codec.h"
#include "brigade/input/to_device.h"

namespace brigade::input {
namespace {

using data::Structure;
using data::Unbatch;
using data::testing::error_of;
using data::testing::expect_invalid_argument;

bool equals(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

bool equals(const NamedTensors& a, const NamedTensors& b) {
  if (a.names() != b.names()) return false;
  for (std::size_t i = 0; i < a.names().size(); ++i) {
    if (!equals(a.tensors()[i], b.tensors()[i])) return false;
  }
  return true;
}

/// "x" is [length] full of n, "y" the number n.
NamedTensors example(std::int64_t n, std::int64_t length = 2) {
  return NamedTensors(
      {{"x", at::full({length}, n, at::kFloat)}, {"y", at::full({}, n, at::kLong)}});
}

data::Dataset<NamedTensors> examples(std::int64_t count) {
  return data::range(count).map([](std::int64_t n) { return example(n); });
}

TEST(NamedTensors, AreFoundByName) {
  const NamedTensors tensors = example(3);
  EXPECT_EQ(tensors["y"].item<std::int64_t>(), 3);
  const auto [y, x] = tensors.pick("y", "x");
  EXPECT_TRUE(equals(x, tensors["x"]));
  EXPECT_TRUE(equals(y, tensors["y"]));
  EXPECT_TRUE(tensors.contains("x"));
  EXPECT_FALSE(tensors.contains("z"));
}

TEST(NamedTensors, ErrorsListTheNames) {
  const Error error = error_of([] { example(3)["z"]; });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_STREQ(error.what(), "There is no tensor \"z\"; there are: x, y");
}

TEST(NamedTensors, RefuseDuplicateAndMissingNames) {
  expect_invalid_argument(
      [] {
        NamedTensors({{"x", at::zeros({})}, {"x", at::zeros({})}});
      },
      "\"x\" occurs twice");
  expect_invalid_argument([] { NamedTensors(example(1).shared_names(), {at::zeros({})}); },
                          "2 names for 1 tensors");
}

TEST(NamedTensors, AreChangedAsCopies) {
  const NamedTensors tensors = example(3);
  const NamedTensors replaced = tensors.with("x", at::zeros({1}));
  EXPECT_EQ(replaced.names(), tensors.names());
  EXPECT_EQ(replaced["x"].numel(), 1);
  EXPECT_EQ(tensors["x"].numel(), 2);
  EXPECT_EQ(tensors.with("z", at::zeros({})).names(), (NamedTensors::Names{"x", "y", "z"}));
  EXPECT_EQ(tensors.without("x").names(), NamedTensors::Names{"y"});
  EXPECT_TRUE(equals(tensors.without("x")["y"], tensors["y"]));
  EXPECT_THROW(tensors.without("z"), Error);
}

TEST(NamedTensors, BatchAndUnbatch) {
  auto batches = examples(5).batch(2).iterator();
  const NamedTensors batch = *batches.next();
  EXPECT_EQ(batch["x"].sizes(), at::IntArrayRef({2, 2}));
  EXPECT_EQ(batch["y"].sizes(), at::IntArrayRef({2}));
  EXPECT_EQ(batch["y"][1].item<std::int64_t>(), 1);
  EXPECT_EQ(Structure<NamedTensors>::size(batch), 2);
  EXPECT_TRUE(equals(Structure<NamedTensors>::slice(batch, 1, 2)["x"], batch["x"].slice(0, 1, 2)));

  auto rebatched = examples(5).batch(2).rebatch(3).iterator();
  EXPECT_EQ((*rebatched.next())["y"][2].item<std::int64_t>(), 2);
  auto elements = examples(5).batch(2).unbatch().iterator();
  for (std::int64_t n = 0; n < 5; ++n) EXPECT_TRUE(equals(*elements.next(), example(n)));
  EXPECT_FALSE(elements.next());
}

TEST(NamedTensors, RefuseBatchesOfDifferentElements) {
  expect_invalid_argument(
      [] {
        Structure<NamedTensors>::stack({example(1), NamedTensors({{"x", at::zeros({2})}})});
      },
      "element 0 has x, y; element 1 has x");
  expect_invalid_argument(
      [] {
        Structure<NamedTensors>::stack({example(1, 2), example(1, 3)});
      },
      "\"x\": The elements of a batch");
  expect_invalid_argument(
      [] {
        Structure<NamedTensors>::size(NamedTensors({{"x", at::zeros({2})}, {"y", at::zeros({3})}}));
      },
      "2 rows of \"x\" but 3 of \"y\"");
}

TEST(NamedTensors, ArePaddedByName) {
  const auto padded = data::range(2)
                          .map([](std::int64_t n) { return example(n, n + 1); })
                          .padded_batch(2, {.padding = {{"x", {.value = -1, .length = 3}}}});
  const NamedTensors batch = *padded.iterator().next();
  EXPECT_EQ(batch["x"].sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(batch["x"][0][1].item<float>(), -1);
  EXPECT_EQ(batch["x"][1][1].item<float>(), 1);
  EXPECT_EQ(batch["y"].sizes(), at::IntArrayRef({2}));
  EXPECT_NE(padded.describe().find("x, to length 3, with -1"), std::string::npos);
  EXPECT_EQ(error_of([] {
              data::Padding<NamedTensors>::stack({example(1)}, {{"z", {}}});
            }).code(),
            ErrorCode::kNotFound);
}

TEST(NamedTensors, AreWrittenAndRead) {
  const NamedTensors tensors = example(3);
  EXPECT_TRUE(equals(data::decode<NamedTensors>(data::encode(tensors)), tensors));
  data::Encoder broken;
  data::encode_all(broken, NamedTensors::Names{"x", "y"}, std::vector<at::Tensor>{at::zeros({})});
  EXPECT_EQ(error_of([&] { data::decode<NamedTensors>(std::move(broken).bytes()); }).code(),
            ErrorCode::kDataLoss);
}

TEST(NamedTensors, AreCopiedToDevices) {
  const auto doubled = each_tensor(std::pair(example(3), at::full({1}, 4)),
                                   [](const at::Tensor& tensor) { return tensor * 2; });
  EXPECT_EQ(doubled.first["y"].item<std::int64_t>(), 6);
  EXPECT_EQ(doubled.second.item<float>(), 8);
  EXPECT_TRUE(equals(to_device(example(3), c10::Device("cpu")), example(3)));
}

TEST(NamedTensors, AreSplitForReplicas) {
  const NamedTensors batch = *examples(5).batch(5).iterator().next();
  const auto parts = input::split_batch(std::pair(batch, batch["y"]), 2);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].first["x"].sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(parts[1].second.sizes(), at::IntArrayRef({2}));
}

TEST(NamedTensors, CountTheirMemory) {
  EXPECT_GT(data::ByteSize<NamedTensors>::of(example(0, 1000)), 4000U);
}

}  // namespace
}  // namespace brigade::input
