#include "brigade/comm/local/chunks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace brigade::comm {
namespace {

std::vector<FlatTensor> tensors() {
  return {{.values = at::arange(3, at::kFloat)},
          {.values = at::arange(10, at::kFloat)},
          {.values = at::arange(2, at::kDouble)},
          {.values = at::arange(2, at::kDouble), .narrow = true}};
}

TEST(Chunks, HoldSmallTensorsTogetherAndSplitLargeOnes) {
  const auto all = tensors();
  const std::vector<Chunk> chunks = cut_into_chunks(all, 20);  // 5 floats, 2 doubles
  ASSERT_EQ(chunks.size(), 5);
  EXPECT_EQ(chunks[0].numel, 5);
  EXPECT_EQ(chunks[0].pieces.size(), 2);
  EXPECT_EQ(chunks[1].numel, 5);
  EXPECT_EQ(chunks[2].numel, 3);
  EXPECT_EQ(chunks[3].dtype, at::kDouble);
  EXPECT_FALSE(chunks[3].narrow);
  EXPECT_TRUE(chunks[4].narrow);
}

TEST(Chunks, CopyTheirValuesInAndOut) {
  const auto all = tensors();
  const std::vector<Chunk> chunks = cut_into_chunks(all, 20);
  const at::Tensor flat = at::zeros({5});
  copy_in(chunks[0], all, flat);
  EXPECT_TRUE(at::equal(flat, at::tensor({0.F, 1.F, 2.F, 0.F, 1.F})));
  flat.neg_();
  copy_out(chunks[0], all, flat);
  EXPECT_TRUE(at::equal(all[0].values, -at::arange(3, at::kFloat)));
  EXPECT_EQ(all[1].values[1].item<float>(), -1);
  EXPECT_EQ(all[1].values[2].item<float>(), 2);
}

TEST(Chunks, ConvertDtypesWhenCopied) {
  const std::vector<FlatTensor> one = {{.values = at::arange(4, at::kDouble).div(3)}};
  const Chunk chunk = cut_into_chunks(one, 1'000)[0];
  const at::Tensor narrow = at::zeros({4}, at::kBFloat16);
  copy_in(chunk, one, narrow);
  EXPECT_TRUE(at::equal(narrow, one[0].values.to(at::kBFloat16)));
  copy_out(chunk, one, narrow);
  EXPECT_TRUE(at::equal(one[0].values, narrow.to(at::kDouble)));
}

}  // namespace
}  // namespace brigade::comm
