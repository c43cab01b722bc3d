#include "brigade/comm/differentiable.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/comm/testing/rank_threads.h"

namespace brigade::comm {
namespace {

at::Tensor leaf(std::vector<std::int64_t> shape, double value) {
  return at::full(shape, value, at::kDouble).set_requires_grad(true);
}

TEST(DifferentiableAllReduce, TheGradientOfTheSumIsTheSumOfTheGradients) {
  for (const int world : {1, 2, 3}) {
    run_ranks_successfully(world, [&](Communicator& communicator) {
      const at::Tensor x = leaf({}, communicator.rank() + 1.0);
      const at::Tensor y = 3 * differentiable_all_reduce(communicator, x, ReduceOp::kSum);
      EXPECT_EQ(y.item<double>(), 3.0 * world * (world + 1) / 2);
      y.backward();
      EXPECT_EQ(x.grad().item<double>(), 3.0 * world);  // 6 on two replicas
    });
  }
}

TEST(DifferentiableAllReduce, TheGradientOfTheMeanIsTheMeanOfTheGradients) {
  run_ranks_successfully(2, [](Communicator& communicator) {
    const at::Tensor x = leaf({2}, communicator.rank() == 0 ? 1.0 : 3.0);
    const at::Tensor mean = differentiable_all_reduce(communicator, x, ReduceOp::kMean);
    EXPECT_EQ(mean[0].item<double>(), 2.0);
    (mean * (communicator.rank() == 0 ? 1.0 : 5.0)).sum().backward();
    EXPECT_EQ(x.grad()[1].item<double>(), 3.0);
  });
}

TEST(DifferentiableAllReduce, LeavesItsInputAloneAndTakesAnyLayout) {
  run_ranks_successfully(2, [](Communicator& communicator) {
    const at::Tensor value = at::arange(6, at::kDouble).view({2, 3}).t();
    const at::Tensor sum = differentiable_all_reduce(communicator, value, ReduceOp::kSum);
    EXPECT_TRUE(at::equal(sum, 2 * value));
    EXPECT_EQ(value[2][1].item<double>(), 5);
  });
}

TEST(DifferentiableAllReduce, MaximumAndMinimumCutTheGraph) {
  run_ranks_successfully(2, [](Communicator& communicator) {
    const at::Tensor x = leaf({1}, communicator.rank() + 1.0);
    const at::Tensor most = differentiable_all_reduce(communicator, x, ReduceOp::kMax);
    const at::Tensor least = differentiable_all_reduce(communicator, x, ReduceOp::kMin);
    EXPECT_EQ(most.item<double>(), 2);
    EXPECT_EQ(least.item<double>(), 1);
    EXPECT_FALSE(most.requires_grad());
  });
}

TEST(DifferentiableAllGather, JoinsUnevenPartsAlongTheAxis) {
  run_ranks_successfully(2, [](Communicator& communicator) {
    const at::Tensor mine = at::full({communicator.rank() + 1, 2}, communicator.rank());
    const at::Tensor all = differentiable_all_gather(communicator, mine, 0);
    EXPECT_EQ(all.sizes(), at::IntArrayRef({3, 2}));
    EXPECT_EQ(all.sum().item<int>(), 4);
    const at::Tensor columns = differentiable_all_gather(communicator, mine.t(), -1);
    EXPECT_EQ(columns.sizes(), at::IntArrayRef({2, 3}));
  });
}

TEST(DifferentiableAllGather, EachRankGetsItsPartOfTheSummedGradient) {
  run_ranks_successfully(2, [](Communicator& communicator) {
    const at::Tensor x = leaf({communicator.rank() + 1}, 1.0);
    const at::Tensor all = differentiable_all_gather(communicator, x, 0);
    const at::Tensor weights = at::arange(1, 4, at::kDouble) * (communicator.rank() + 1);
    (all * weights).sum().backward();
    // Both ranks' weights added: 3 * {1, 2, 3}.
    const at::Tensor expected = 3 * at::arange(1, 4, at::kDouble);
    EXPECT_TRUE(at::equal(
        x.grad(), communicator.rank() == 0 ? expected.narrow(0, 0, 1) : expected.narrow(0, 1, 2)));
  });
}

TEST(DifferentiableAllGather, RefusesScalarsAndOtherShapes) {
  run_ranks_successfully(1, [](Communicator& communicator) {
    EXPECT_THROW(differentiable_all_gather(communicator, at::full({}, 1.0), 0), Error);
    EXPECT_THROW(differentiable_all_gather(communicator, at::full({2}, 1.0), 1), Error);
    EXPECT_THROW(differentiable_all_gather(communicator, at::full({2}, 1.0), -2), Error);
  });
  const auto thrown = run_ranks(2, [](Communicator& communicator) {
    const at::Tensor tensor = at::full({1, 2 + communicator.rank()}, 1.0);
    differentiable_all_gather(communicator, tensor, 0);
  });
  EXPECT_TRUE(thrown[0]);
  EXPECT_TRUE(thrown[1]);
}

}  // namespace
}  // namespace brigade::comm
