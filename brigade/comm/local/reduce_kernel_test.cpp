#include "brigade/comm/local/reduce_kernel.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <vector>

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

class AddInOrder : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  static std::vector<at::Tensor> inputs(int count, std::int64_t size) {
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < count; ++i)
      tensors.push_back((at::rand({size}, at::kDouble) * 100).to(GetParam()));
    return tensors;
  }
  static at::Tensor sum(std::span<const at::Tensor> tensors, std::int64_t begin, std::int64_t end) {
    at::Tensor output = at::full({end - begin}, 7, GetParam());
    add_in_order(tensors, begin, end, output, 0);
    return output;
  }
};

TEST_P(AddInOrder, AddsFromTheFirstToTheLast) {
  for (const int count : {1, 2, 3, 5}) {
    const auto tensors =
        inputs(count, 10'001);  // more than two blocks, and no multiple of a vector
    at::Tensor expected = tensors[0].clone();
    for (int i = 1; i < count; ++i) expected = expected + tensors[i];
    EXPECT_TRUE(at::equal(sum(tensors, 0, 10'001), expected)) << count;
  }
}

TEST_P(AddInOrder, BitsDoNotDependOnHowTheRangeIsSplit) {
  const auto tensors = inputs(3, 9'000);
  const at::Tensor whole = sum(tensors, 0, 9'000);
  for (const std::int64_t cut : {1, 7, 4'095, 4'097, 8'999}) {
    EXPECT_TRUE(at::equal(sum(tensors, 0, cut), whole.narrow(0, 0, cut)));
    EXPECT_TRUE(at::equal(sum(tensors, cut, 9'000), whole.narrow(0, cut, 9'000 - cut)));
  }
}

TEST_P(AddInOrder, UndefinedInputsCountAsZero) {
  const auto two = inputs(2, 100);
  const std::vector<at::Tensor> with_gaps = {at::Tensor(), two[0], at::Tensor(), two[1]};
  EXPECT_TRUE(at::equal(sum(with_gaps, 0, 100), two[0] + two[1]));
  const std::vector<at::Tensor> one = {at::Tensor(), two[1]};
  EXPECT_TRUE(at::equal(sum(one, 0, 100), two[1]));
  const std::vector<at::Tensor> none = {at::Tensor(), at::Tensor()};
  EXPECT_TRUE(at::equal(sum(none, 0, 100), at::full({100}, 0, GetParam())));
}

TEST_P(AddInOrder, WritesOnlyTheGivenRangeOfTheOutput) {
  const auto tensors = inputs(2, 50);
  at::Tensor output = at::full({10}, 7, GetParam());
  add_in_order(tensors, 20, 25, output, 3);
  EXPECT_TRUE(at::equal(output.narrow(0, 3, 5), (tensors[0] + tensors[1]).narrow(0, 20, 5)));
  EXPECT_TRUE(at::equal(output.narrow(0, 0, 3), at::full({3}, 7, GetParam())));
  EXPECT_TRUE(at::equal(output.narrow(0, 8, 2), at::full({2}, 7, GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AddInOrder, ::testing::Values(at::kFloat, at::kDouble, at::kLong));

class NarrowSums : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  /// 4096 parts of 1. In half a sum of ones stops at 2048, in bfloat16 at 256.
  static std::vector<at::Tensor> ones() {
    return std::vector<at::Tensor>(4096, at::full({5}, 1.0, GetParam()));
  }
  static at::Tensor of(double value, std::int64_t size = 5) {
    return at::full({size}, value, GetParam());
  }
};

TEST_P(NarrowSums, OfManySmallValuesAreExact) {
  const std::vector<at::Tensor> parts = ones();
  EXPECT_TRUE(at::equal(combine_in_order(parts, ReduceOp::kSum), of(4096)));
  EXPECT_TRUE(at::equal(combine_in_order(parts, ReduceOp::kMean), of(1)));
  const at::Tensor sum = of(7);
  add_in_order(parts, 0, 5, sum, 0);
  EXPECT_TRUE(at::equal(sum, of(4096)));
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
    const at::Tensor range = of(7, 3);
    combine_range(parts, op, 1, 4, range);
    EXPECT_TRUE(at::equal(range, of(op == ReduceOp::kSum ? 4096 : 1, 3)));
  }
}

TEST_P(NarrowSums, AreNotRoundedIntoAnOutputOfFloat32) {
  const std::vector<at::Tensor> parts = {at::Tensor(), of(2048), of(1)};
  const at::Tensor sum = at::full({9}, 7, at::kFloat);
  add_in_order(parts, 1, 4, sum, 2);
  EXPECT_TRUE(at::equal(sum.narrow(0, 2, 3), at::full({3}, 2049.0F)));
  EXPECT_EQ(sum[1].item<float>(), 7);
  EXPECT_EQ(sum[5].item<float>(), 7);
}

TEST_P(NarrowSums, KeepTheirDtypeInEveryOperation) {
  const std::vector<at::Tensor> parts = {of(1), of(3)};
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin})
    EXPECT_EQ(combine_in_order(parts, op).scalar_type(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Dtypes, NarrowSums, ::testing::Values(at::kHalf, at::kBFloat16));

TEST(CombineInOrder, ComputesTheMeanOfHalvesWhoseSumOverflowsHalf) {
  const std::vector<at::Tensor> parts(2, at::full({2}, 4e4, at::kHalf));
  EXPECT_EQ(combine_in_order(parts, ReduceOp::kMean)[0].item<double>(), 4e4);
  const at::Tensor range = at::full({1}, 7, at::kHalf);
  combine_range(parts, ReduceOp::kMean, 1, 2, range);
  EXPECT_EQ(range.item<double>(), 4e4);
}

TEST(CombineInOrder, SupportsEveryOperation) {
  const std::vector<at::Tensor> inputs = {at::full({2}, 1.0), at::full({2}, 5.0),
                                          at::full({2}, 3.0)};
  const auto value = [&](ReduceOp op) { return combine_in_order(inputs, op)[0].item<double>(); };
  EXPECT_EQ(value(ReduceOp::kSum), 9);
  EXPECT_EQ(value(ReduceOp::kMean), 3);
  EXPECT_EQ(value(ReduceOp::kMax), 5);
  EXPECT_EQ(value(ReduceOp::kMin), 1);
}

TEST(CombineInOrder, DoesNotChangeItsInputs) {
  const std::vector<at::Tensor> inputs = {at::full({2}, 1.0), at::full({2}, 5.0)};
  combine_in_order(inputs, ReduceOp::kSum);
  combine_in_order(std::span(inputs).first(1), ReduceOp::kMean).zero_();
  EXPECT_EQ(inputs[0][0].item<double>(), 1);
  EXPECT_EQ(inputs[1][0].item<double>(), 5);
}

}  // namespace
}  // namespace brigade::comm
