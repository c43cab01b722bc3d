#include "brigade/comm/local/reduce_kernel.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <cmath>
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

class AddByTree : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  /// Of magnitudes so different that almost every order of additions has its own sum.
  static double scale_of(int input) { return std::vector{100.0, 3e7, 1e3, 1e9}[input % 4]; }
  static std::vector<at::Tensor> inputs(int count, std::int64_t size) {
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < count; ++i)
      tensors.push_back((at::rand({size}, at::kDouble).sub(0.5) * scale_of(i)).to(GetParam()));
    return tensors;
  }
  static at::Tensor sum(std::span<const at::Tensor> tensors, std::int64_t begin, std::int64_t end) {
    at::Tensor output = at::full({end - begin}, 7, GetParam());
    add_by_tree(tensors, begin, end, output, 0);
    return output;
  }
};

/// The sum of [begin, end) by the rule: split after the largest power of two below the number.
at::Tensor reference(std::span<const at::Tensor> leaves) {
  if (leaves.size() == 1) return leaves[0];
  std::size_t left = 1;
  while (2 * left < leaves.size()) left *= 2;
  return reference(leaves.first(left)) + reference(leaves.subspan(left));
}

TEST_P(AddByTree, HasTheBitsOfTheRule) {
  for (int count = 1; count <= 9; ++count) {
    for (const std::int64_t size : {1, 7, 10'001}) {  // of several blocks, and no multiple of them
      const auto tensors = inputs(count, size);
      EXPECT_TRUE(at::equal(sum(tensors, 0, size), reference(tensors))) << count << ", " << size;
      EXPECT_TRUE(at::equal(combine_by_tree(tensors, ReduceOp::kSum), reference(tensors)));
    }
  }
}

TEST_P(AddByTree, IsNoChainOfAdditions) {
  if (!at::isFloatingType(GetParam())) GTEST_SKIP() << "integers have one sum";
  const auto tensors = inputs(4, 10'001);
  const at::Tensor chain = ((tensors[0] + tensors[1]) + tensors[2]) + tensors[3];
  EXPECT_FALSE(at::equal(sum(tensors, 0, 10'001), chain));
}

TEST_P(AddByTree, AddsPartsWhereTheirLeavesWouldBeAdded) {
  const auto leaves = inputs(6, 5'000);
  const std::vector<at::Tensor> parts = {leaves[0] + leaves[1], leaves[2], leaves[3],
                                         leaves[4] + leaves[5]};
  const ReductionTree tree(6, {{0, 2}, {2, 3}, {3, 4}, {4, 6}});
  at::Tensor output = at::full({5'000}, 7, GetParam());
  add_by_tree(parts, tree, 0, 5'000, output, 0);
  EXPECT_TRUE(at::equal(output, reference(leaves)));
  EXPECT_TRUE(at::equal(combine_by_tree(parts, tree, ReduceOp::kSum), reference(leaves)));
  if (!at::isFloatingType(GetParam())) return;
  combine_range(parts, tree, ReduceOp::kMean, 0, 5'000, output);
  EXPECT_TRUE(at::equal(output, reference(leaves).div(6.0))) << "by the number of leaves";
}

TEST_P(AddByTree, BitsDoNotDependOnHowTheRangeIsSplit) {
  const auto tensors = inputs(7, 9'000);
  const at::Tensor whole = sum(tensors, 0, 9'000);
  for (const std::int64_t cut : {1, 7, 4'095, 4'097, 8'999}) {
    EXPECT_TRUE(at::equal(sum(tensors, 0, cut), whole.narrow(0, 0, cut)));
    EXPECT_TRUE(at::equal(sum(tensors, cut, 9'000), whole.narrow(0, cut, 9'000 - cut)));
  }
}

TEST_P(AddByTree, UndefinedInputsKeepTheirPositions) {
  const auto five = inputs(5, 3'000);
  const at::Tensor none;
  const std::vector<at::Tensor> with_gaps = {none, five[0], five[1], none, five[2], five[3], none};
  const at::Tensor expected = (five[0] + five[1]) + (five[2] + five[3]);
  EXPECT_TRUE(at::equal(sum(with_gaps, 0, 3'000), expected));
  EXPECT_TRUE(at::equal(combine_by_tree(with_gaps, ReduceOp::kSum), expected));
  const std::vector<at::Tensor> apart = {five[0], five[1], five[2], none, none, five[3], five[4]};
  const at::Tensor tree = ((five[0] + five[1]) + five[2]) + (five[3] + five[4]);
  EXPECT_TRUE(at::equal(sum(apart, 0, 3'000), tree));
  EXPECT_FALSE(combine_by_tree(std::vector{none, none}, ReduceOp::kSum).defined());
}

TEST_P(AddByTree, NothingAddedToAValueIsTheValue) {
  if (!at::isFloatingType(GetParam())) GTEST_SKIP() << "integers have one zero";
  const at::Tensor minus_zero = at::full({5}, -0.0, GetParam());
  const at::Tensor nothing = sum(std::vector<at::Tensor>(2), 0, 5);
  EXPECT_TRUE(std::signbit((nothing + minus_zero)[4].item<double>()));
  EXPECT_TRUE(std::signbit(sum(std::vector{at::Tensor(), minus_zero}, 0, 5)[4].item<double>()));
}

TEST_P(AddByTree, UndefinedInputsCountAsZero) {
  const auto two = inputs(2, 100);
  const std::vector<at::Tensor> with_gaps = {at::Tensor(), two[0], at::Tensor(), two[1]};
  EXPECT_TRUE(at::equal(sum(with_gaps, 0, 100), two[0] + two[1]));
  const std::vector<at::Tensor> one = {at::Tensor(), two[1]};
  EXPECT_TRUE(at::equal(sum(one, 0, 100), two[1]));
  const std::vector<at::Tensor> none = {at::Tensor(), at::Tensor()};
  EXPECT_TRUE(at::equal(sum(none, 0, 100), at::full({100}, 0, GetParam())));
}

TEST_P(AddByTree, WritesOnlyTheGivenRangeOfTheOutput) {
  const auto tensors = inputs(2, 50);
  at::Tensor output = at::full({10}, 7, GetParam());
  add_by_tree(tensors, 20, 25, output, 3);
  EXPECT_TRUE(at::equal(output.narrow(0, 3, 5), (tensors[0] + tensors[1]).narrow(0, 20, 5)));
  EXPECT_TRUE(at::equal(output.narrow(0, 0, 3), at::full({3}, 7, GetParam())));
  EXPECT_TRUE(at::equal(output.narrow(0, 8, 2), at::full({2}, 7, GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AddByTree, ::testing::Values(at::kFloat, at::kDouble, at::kLong));

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
  EXPECT_TRUE(at::equal(combine_by_tree(parts, ReduceOp::kSum), of(4096)));
  EXPECT_TRUE(at::equal(combine_by_tree(parts, ReduceOp::kMean), of(1)));
  const at::Tensor sum = of(7);
  add_by_tree(parts, 0, 5, sum, 0);
  EXPECT_TRUE(at::equal(sum, of(4096)));
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
    const at::Tensor range = of(7, 3);
    combine_range(parts, ReductionTree(static_cast<int>(parts.size())), op, 1, 4, range);
    EXPECT_TRUE(at::equal(range, of(op == ReduceOp::kSum ? 4096 : 1, 3)));
  }
}

TEST_P(NarrowSums, OfSeveralBlocksHaveTheBitsOfFloat32) {
  std::vector<at::Tensor> parts, wide;
  for (int i = 0; i < 7; ++i) {
    parts.push_back(at::rand({40'003}).sub(0.5).mul(i == 1 ? 1e3 : 1).to(GetParam()));
    wide.push_back(parts.back().to(at::kFloat));
  }
  parts[3].reset();
  wide[3].reset();
  const at::Tensor sum = at::full({40'003}, 7, at::kFloat);
  add_by_tree(parts, 0, 40'003, sum, 0);
  EXPECT_TRUE(at::equal(sum, combine_by_tree(wide, ReduceOp::kSum)));
  EXPECT_TRUE(at::equal(combine_by_tree(parts, ReduceOp::kSum), sum.to(GetParam())));
}

TEST_P(NarrowSums, AreNotRoundedIntoAnOutputOfFloat32) {
  const std::vector<at::Tensor> parts = {at::Tensor(), of(2048), of(1)};
  const at::Tensor sum = at::full({9}, 7, at::kFloat);
  add_by_tree(parts, 1, 4, sum, 2);
  EXPECT_TRUE(at::equal(sum.narrow(0, 2, 3), at::full({3}, 2049.0F)));
  EXPECT_EQ(sum[1].item<float>(), 7);
  EXPECT_EQ(sum[5].item<float>(), 7);
}

TEST_P(NarrowSums, KeepTheirDtypeInEveryOperation) {
  const std::vector<at::Tensor> parts = {of(1), of(3)};
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin})
    EXPECT_EQ(combine_by_tree(parts, op).scalar_type(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Dtypes, NarrowSums, ::testing::Values(at::kHalf, at::kBFloat16));

TEST(CombineByTree, ComputesTheMeanOfHalvesWhoseSumOverflowsHalf) {
  const std::vector<at::Tensor> parts(2, at::full({2}, 4e4, at::kHalf));
  EXPECT_EQ(combine_by_tree(parts, ReduceOp::kMean)[0].item<double>(), 4e4);
  const at::Tensor range = at::full({1}, 7, at::kHalf);
  combine_range(parts, ReductionTree(2), ReduceOp::kMean, 1, 2, range);
  EXPECT_EQ(range.item<double>(), 4e4);
}

TEST(CombineByTree, SupportsEveryOperation) {
  const std::vector<at::Tensor> inputs = {at::full({2}, 1.0), at::full({2}, 5.0),
                                          at::full({2}, 3.0)};
  const auto value = [&](ReduceOp op) { return combine_by_tree(inputs, op)[0].item<double>(); };
  EXPECT_EQ(value(ReduceOp::kSum), 9);
  EXPECT_EQ(value(ReduceOp::kMean), 3);
  EXPECT_EQ(value(ReduceOp::kMax), 5);
  EXPECT_EQ(value(ReduceOp::kMin), 1);
}

TEST(CombineByTree, DoesNotChangeItsInputs) {
  const std::vector<at::Tensor> inputs = {at::full({2}, 1.0), at::full({2}, 5.0)};
  combine_by_tree(inputs, ReduceOp::kSum);
  combine_by_tree(std::span(inputs).first(1), ReduceOp::kMean).zero_();
  EXPECT_EQ(inputs[0][0].item<double>(), 1);
  EXPECT_EQ(inputs[1][0].item<double>(), 5);
}

}  // namespace
}  // namespace brigade::comm
