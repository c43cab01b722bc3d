#include "brigade/comm/local/accumulation.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

namespace brigade::comm {
namespace {

TEST(Accumulation, HalfAndBFloat16AreAddedInFloat32) {
  EXPECT_EQ(accumulation_dtype(at::kHalf), at::kFloat);
  EXPECT_EQ(accumulation_dtype(at::kBFloat16), at::kFloat);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kLong, at::kBool})
    EXPECT_EQ(accumulation_dtype(dtype), dtype);
}

TEST(AccumulationTensors, CopyHalfAndBFloat16Only) {
  const std::vector<at::Tensor> mixed = {at::full({2}, 1.0, at::kHalf), at::full({3}, 1.0F)};
  const AccumulationTensors sums(mixed, ReduceOp::kSum);
  ASSERT_EQ(sums.tensors().size(), 2u);
  EXPECT_EQ(sums.tensors()[0].scalar_type(), at::kFloat);
  EXPECT_EQ(sums.tensors()[1].const_data_ptr(), mixed[1].const_data_ptr());
  sums.tensors()[0].fill_(2049.5);
  EXPECT_EQ(mixed[0][0].item<double>(), 1);
  sums.copy_back();
  EXPECT_EQ(mixed[0][0].item<double>(), 2050);
  EXPECT_EQ(mixed[0].scalar_type(), at::kHalf);
}

TEST(AccumulationTensors, AreTheCallersForOtherOperationsAndDtypes) {
  const at::Tensor half = at::full({2}, 1.0, at::kHalf);
  EXPECT_TRUE(AccumulationTensors({&half, 1}, ReduceOp::kMax).tensors()[0].is_same(half));
  const at::Tensor full = at::full({2}, 1.0F);
  EXPECT_TRUE(AccumulationTensors({&full, 1}, ReduceOp::kMean).tensors()[0].is_same(full));
}

}  // namespace
}  // namespace brigade::comm
