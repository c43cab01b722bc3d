// The contract of all CrossDeviceOps, and what each adds to it.
#include "brigade/comm/cross_device_ops.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "brigade/base/error.h"

namespace brigade::comm {
namespace {

const c10::Device kCpu(c10::kCPU);

struct Kind {
  std::string name;
  std::function<std::unique_ptr<CrossDeviceOps>()> make;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class CrossDeviceOpsContract : public ::testing::TestWithParam<Kind> {
 protected:
  static std::vector<at::Tensor> random_values(int count, at::IntArrayRef shape,
                                               at::ScalarType dtype = at::kDouble) {
    std::vector<at::Tensor> values;
    for (int i = 0; i < count; ++i) values.push_back(at::rand(shape, dtype) - 0.5);
    return values;
  }
  static at::Tensor sum_of(const std::vector<at::Tensor>& values) {
    at::Tensor sum = values.front();
    for (std::size_t i = 1; i < values.size(); ++i) sum = sum + values[i];
    return sum;
  }
  at::Tensor reduced(ReduceOp op, const std::vector<at::Tensor>& values) const {
    return ops_->reduce(op, values, {&kCpu, 1}).front();
  }
  ErrorCode code_of(const std::function<void()>& call) const {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }

  const std::unique_ptr<CrossDeviceOps> ops_ = GetParam().make();
};

TEST_P(CrossDeviceOpsContract, AddAnyNumberOfReplicas) {
  for (const int replicas : {1, 2, 3, 4, 5, 9}) {
    const auto values = random_values(replicas, {7, 3});
    const at::Tensor sum = reduced(ReduceOp::kSum, values);
    EXPECT_TRUE(sum.allclose(sum_of(values), 1e-12, 1e-15)) << replicas;
    EXPECT_TRUE(reduced(ReduceOp::kMean, values).allclose(sum_of(values) / replicas, 1e-12));
  }
}

TEST_P(CrossDeviceOpsContract, FindTheLargestAndTheSmallest) {
  const std::vector<at::Tensor> values = {at::arange(4), 3 - at::arange(4), at::full({4}, 2)};
  EXPECT_TRUE(at::equal(reduced(ReduceOp::kMax, values), at::tensor({3, 2, 2, 3})));
  EXPECT_TRUE(at::equal(reduced(ReduceOp::kMin, values), at::tensor({0, 1, 1, 0})));
}

TEST_P(CrossDeviceOpsContract, KeepShapesAndDtypes) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kLong}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {0}, {1}, {2, 3, 4}}) {
      const std::vector<at::Tensor> values(3, at::full(shape, 2, dtype));
      const at::Tensor sum = reduced(ReduceOp::kSum, values);
      EXPECT_EQ(sum.scalar_type(), dtype);
      EXPECT_EQ(sum.sizes(), at::IntArrayRef(shape));
      EXPECT_TRUE(at::equal(sum, at::full(shape, 6, dtype)));
    }
  }
}

TEST_P(CrossDeviceOpsContract, AddHalfAndBFloat16InFloat32AndRoundOnce) {
  const auto of = [](std::initializer_list<double> values, at::ScalarType dtype) {
    std::vector<at::Tensor> tensors;
    for (const double value : values) tensors.push_back(at::full({5}, value, dtype));
    return tensors;
  };
  const auto is = [](const at::Tensor& tensor, double value, at::ScalarType dtype) {
    return at::equal(tensor, at::full({5}, value, dtype));
  };
  EXPECT_TRUE(
      is(reduced(ReduceOp::kMean, of({4e4, 4e4, 4e4, 4e4, 4e4}, at::kHalf)), 4e4, at::kHalf));
  // Four of the five values form one group, whose sum 2051 is not representable in half.
  EXPECT_TRUE(is(reduced(ReduceOp::kSum, of({2048, 1, 1, 1, 1}, at::kHalf)), 2052, at::kHalf));
  EXPECT_TRUE(
      is(reduced(ReduceOp::kSum, of({256, 1, 1, 1, 1}, at::kBFloat16)), 260, at::kBFloat16));
  const std::vector<std::vector<at::Tensor>> batch = {of({4e4, 4e4}, at::kHalf),
                                                      of({2048, 3}, at::kHalf)};
  const auto means = ops_->batch_reduce(ReduceOp::kMean, batch, {&kCpu, 1});
  EXPECT_TRUE(is(means[0][0], 4e4, at::kHalf));
  EXPECT_TRUE(is(means[1][0], 1025.5, at::kHalf));
}

TEST_P(CrossDeviceOpsContract, ReduceWhatIsNotContiguous) {
  const auto values = random_values(2, {4, 6});
  const std::vector<at::Tensor> columns = {values[0].t(), values[1].t()};
  EXPECT_TRUE(at::equal(reduced(ReduceOp::kSum, columns), (values[0] + values[1]).t()));
}

TEST_P(CrossDeviceOpsContract, EveryDestinationGetsItsOwnResult) {
  const std::vector<c10::Device> three(3, kCpu);
  const auto values = random_values(3, {5});
  const std::vector<at::Tensor> before = {values[0].clone(), values[1].clone(), values[2].clone()};
  const auto results = ops_->reduce(ReduceOp::kSum, values, three);
  ASSERT_EQ(results.size(), 3u);
  const at::Tensor expected = results[1].clone();
  EXPECT_TRUE(at::equal(results[0], expected) && at::equal(results[2], expected));
  results[0].zero_();
  EXPECT_TRUE(at::equal(results[1], expected) && at::equal(results[2], expected));
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(at::equal(values[i], before[i]));
}

TEST_P(CrossDeviceOpsContract, OneValueIsCopiedToo) {
  const std::vector<at::Tensor> one = {at::full({3}, 1.0)};
  reduced(ReduceOp::kSum, one).zero_();
  EXPECT_EQ(one[0].sum().item<double>(), 3);
}

TEST_P(CrossDeviceOpsContract, MissingValuesCountAsZeros) {
  const auto values = random_values(4, {6});
  const std::vector<at::Tensor> some = {{}, values[1], {}, values[3]};
  EXPECT_TRUE(reduced(ReduceOp::kSum, some).allclose(values[1] + values[3], 1e-14));
  EXPECT_TRUE(reduced(ReduceOp::kMean, some).allclose((values[1] + values[3]) / 4, 1e-14));
  EXPECT_FALSE(reduced(ReduceOp::kSum, {{}, {}}).defined());
}

TEST_P(CrossDeviceOpsContract, ABatchGivesTheResultsOfItsReductions) {
  std::vector<std::vector<at::Tensor>> batch = {random_values(3, {4, 5}),
                                                random_values(3, {}),
                                                random_values(3, {0}),
                                                random_values(3, {7}),
                                                random_values(3, {3}, at::kFloat),
                                                {{}, {}, {}},
                                                {{}, at::full({2}, 5.0, at::kDouble), {}}};
  const std::vector<c10::Device> two(2, kCpu);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
    const auto results = ops_->batch_reduce(op, batch, two);
    ASSERT_EQ(results.size(), batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const at::Tensor alone = reduced(op, batch[i]);
      for (const at::Tensor& result : results[i]) {
        ASSERT_EQ(result.defined(), alone.defined()) << i;
        if (!alone.defined()) continue;
        EXPECT_EQ(result.scalar_type(), alone.scalar_type());
        EXPECT_TRUE(result.sizes() == alone.sizes() && result.allclose(alone, 1e-6, 1e-12)) << i;
      }
    }
  }
  EXPECT_TRUE(ops_->batch_reduce(ReduceOp::kSum, {}, two).empty());
}

TEST_P(CrossDeviceOpsContract, GiveTheSameBitsInEveryCall) {
  for (const int replicas : {2, 3, 4}) {
    const auto values = random_values(replicas, {1'003}, at::kFloat);
    EXPECT_TRUE(at::equal(reduced(ReduceOp::kSum, values), reduced(ReduceOp::kSum, values)));
  }
}

TEST_P(CrossDeviceOpsContract, BroadcastCopies) {
  const std::vector<c10::Device> two(2, kCpu);
  const at::Tensor value = at::full({2}, 4.0);
  const auto copies = ops_->broadcast(value, two);
  ASSERT_EQ(copies.size(), 2u);
  copies[0].zero_();
  EXPECT_EQ(value.sum().item<double>(), 8);
  EXPECT_TRUE(at::equal(copies[1], value));
}

TEST_P(CrossDeviceOpsContract, ResultsHaveNoGraph) {
  const std::vector<at::Tensor> values(2, at::full({2}, 1.0).set_requires_grad(true));
  EXPECT_FALSE(reduced(ReduceOp::kSum, values).requires_grad());
}

TEST_P(CrossDeviceOpsContract, RefuseInvalidArguments) {
  const std::vector<at::Tensor> two = {at::full({2}, 1.0), at::full({2}, 1.0)};
  const std::vector<at::Tensor> shapes = {at::full({2}, 1.0), at::full({3}, 1.0)};
  const std::vector<at::Tensor> dtypes = {at::full({2}, 1.0), at::full({2}, 1)};
  const std::vector<at::Tensor> integers = {at::full({2}, 1), at::full({2}, 1)};
  const std::vector<at::Tensor> missing = {at::full({2}, 1.0), {}};
  const std::vector<std::function<void()>> calls = {
      [&] { (void)ops_->reduce(ReduceOp::kSum, two, {}); },
      [&] { (void)ops_->batch_reduce(ReduceOp::kSum, {}, {}); },
      [&] { (void)ops_->broadcast(two[0], {}); },
      [&] {
        (void)ops_->broadcast({}, {&kCpu, 1});
      },
      [&] { (void)reduced(ReduceOp::kSum, {}); },
      [&] { (void)reduced(ReduceOp::kSum, shapes); },
      [&] { (void)reduced(ReduceOp::kSum, dtypes); },
      [&] { (void)reduced(ReduceOp::kMean, integers); },
      [&] { (void)reduced(ReduceOp::kMax, missing); },
      [&] {
        const std::vector<std::vector<at::Tensor>> uneven = {two, {two[0]}};
        (void)ops_->batch_reduce(ReduceOp::kSum, uneven, {&kCpu, 1});
      }};
  for (std::size_t i = 0; i < calls.size(); ++i)
    EXPECT_EQ(code_of(calls[i]), ErrorCode::kInvalidArgument) << "call " << i;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, CrossDeviceOpsContract,
    ::testing::Values(
        Kind{"ReductionToOneDevice", [] { return std::make_unique<ReductionToOneDevice>(); }},
        Kind{"ReductionToFixedDevice",
             [] {
               return std::make_unique<ReductionToOneDevice>(
                   ReductionToOneDeviceOptions{.reduce_to_device = kCpu});
             }},
        Kind{"HierarchicalCopy", [] { return std::make_unique<HierarchicalCopyAllReduce>(); }},
        Kind{"HierarchicalCopyOfPairs",
             [] {
               return std::make_unique<HierarchicalCopyAllReduce>(
                   HierarchicalCopyOptions{.num_buckets = 3, .group_size = 2});
             }},
        Kind{"AllReduce", [] { return std::make_unique<AllReduce>(); }},
        Kind{"AllReduceInBuckets",
             [] { return std::make_unique<AllReduce>(AllReduceOptions{.num_buckets = 100}); }}),
    [](const auto& instance) { return instance.param.name; });

// Values whose sum depends on the order of additions.
TEST(ReductionToOneDevice, AddsThreeInReplicaOrder) {
  const std::vector<at::Tensor> values = {at::full({1}, 1e16, at::kDouble),
                                          at::full({1}, 1.0, at::kDouble),
                                          at::full({1}, -1e16, at::kDouble)};
  const ReductionToOneDevice ops;
  EXPECT_EQ(ops.reduce(ReduceOp::kSum, values, {&kCpu, 1})[0].item<double>(), 0);
}

TEST(HierarchicalCopyAllReduce, BitsDoNotDependOnGroups) {
  const std::vector<at::Tensor> values = {
      at::full({1}, 1e16, at::kDouble), at::full({1}, 1.0, at::kDouble),
      at::full({1}, -1e16, at::kDouble), at::full({1}, 1.0, at::kDouble)};
  const auto sum_in = [&](int group_size) {
    const HierarchicalCopyAllReduce ops({.group_size = group_size});
    return ops.reduce(ReduceOp::kSum, values, {&kCpu, 1})[0].item<double>();
  };
  // (1e16 + 1) + (-1e16 + 1); a chain of additions gives 1.
  for (const int group_size : {1, 2, 3, 4}) EXPECT_EQ(sum_in(group_size), 0) << group_size;
}

TEST(HierarchicalCopyAllReduce, RefusesBucketsAndGroupsBelowOne) {
  for (const int wrong : {0, -1}) {
    EXPECT_THROW(HierarchicalCopyAllReduce({.num_buckets = wrong}), Error);
    EXPECT_THROW(HierarchicalCopyAllReduce({.group_size = wrong}), Error);
  }
}

TEST(AllReduce, RefusesBucketsBelowOne) {
  for (const int wrong : {0, -1}) EXPECT_THROW(AllReduce({.num_buckets = wrong}), Error);
}

TEST(AllReduce, AddsByTheTreeForAnyNumberOfBuckets) {
  std::vector<at::Tensor> values;
  for (int i = 0; i < 4; ++i) values.push_back(at::rand({1'003}) - 0.5);
  const at::Tensor expected = (values[0] + values[1]) + (values[2] + values[3]);
  for (const int num_buckets : {1, 2, 7}) {
    const AllReduce ops({.num_buckets = num_buckets});
    EXPECT_TRUE(at::equal(ops.reduce(ReduceOp::kSum, values, {&kCpu, 1})[0], expected));
    EXPECT_TRUE(
        at::equal(ops.batch_reduce(ReduceOp::kSum, {&values, 1}, {&kCpu, 1})[0][0], expected));
  }
}

}  // namespace
}  // namespace brigade::comm
