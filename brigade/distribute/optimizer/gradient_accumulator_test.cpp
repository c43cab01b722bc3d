#include "brigade/distribute/optimizer/gradient_accumulator.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "brigade/distribute/testing/deferred_product.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {
namespace {

class Accumulated : public ::testing::Test {
 protected:
  Accumulated() {
    const std::vector<std::shared_ptr<torch::nn::Module>> models = {
        std::make_shared<AffineModule>()};
    variables_ = store_.adopt(models);
  }
  optim::OptimizerState state(std::vector<optim::ParameterGroup> groups = {}) const {
    return {optim::Sgd{}.rule(), variables_, groups};
  }
  /// For weight, bias and the parameter that nothing uses.
  static std::vector<at::Tensor> gradients(double weight, std::optional<double> bias) {
    return {at::full({3}, weight, at::kDouble),
            bias ? at::full({3}, *bias, at::kDouble) : at::Tensor(), at::Tensor()};
  }

  variables::VariableStore store_{{c10::Device(c10::kCPU)}, variables::StorageSharing::kOneStorage};
  std::vector<variables::Variable> variables_;
};

TEST_F(Accumulated, MicroBatchesAreAdded) {
  const auto optimizer = state();
  GradientAccumulator accumulator(optimizer, 0);
  EXPECT_EQ(accumulator.micro_batches(), 0);
  accumulator.add(to_parts(gradients(1, std::nullopt)), 4, 0);
  accumulator.add(to_parts(gradients(2, 5)), 3, 0);
  EXPECT_EQ(accumulator.micro_batches(), 2);
  EXPECT_EQ(accumulator.global_examples(), 7);
  EXPECT_FALSE(accumulator.local_examples());
  const auto sums = accumulator.divided(2);
  EXPECT_TRUE(at::equal(sums[0], at::full({3}, 1.5, at::kDouble)));
  EXPECT_TRUE(at::equal(sums[1], at::full({3}, 2.5, at::kDouble)));
  EXPECT_FALSE(sums[2].defined()) << "missing in every micro-batch";
}

TEST_F(Accumulated, HalfIsAddedAndDividedInFloat32) {
  variables::VariableStore store{variables::VariableStoreOptions{}};
  const std::vector<variables::Variable> halves = {
      store.create({.name = "h", .initial = at::full({2}, 0.0, at::kHalf)})};
  const optim::OptimizerState optimizer(optim::Sgd{}.rule(), halves, {});
  GradientAccumulator accumulator(optimizer, 0);
  const std::vector<at::Tensor> one = {at::full({2}, 1.0, at::kHalf)};
  for (int micro_batch = 0; micro_batch < 3001; ++micro_batch) accumulator.add(to_parts(one), 1, 0);
  EXPECT_TRUE(at::equal(accumulator.divided(1)[0], at::full({2}, 3001.0F)))
      << "a sum of ones in half stops at 2048";
  accumulator.clear();
  const std::vector<at::Tensor> large = {at::full({2}, 4e4, at::kHalf)};
  accumulator.add(to_parts(large), 1, 0);
  accumulator.add(to_parts(large), 1, 0);
  EXPECT_TRUE(at::equal(accumulator.divided(2)[0], at::full({2}, 4e4F)));
}

TEST_F(Accumulated, TheNextGroupReusesTheMemory) {
  const auto optimizer = state();
  GradientAccumulator accumulator(optimizer, 0);
  accumulator.add(to_parts(gradients(1, 1)), 4, 0);
  const void* const memory = accumulator.divided(1)[0].const_data_ptr();
  accumulator.clear();
  EXPECT_EQ(accumulator.micro_batches(), 0);
  EXPECT_FALSE(accumulator.divided(1)[0].defined());
  accumulator.add(to_parts(gradients(7, std::nullopt)), 2, 0);
  const auto sums = accumulator.divided(1);
  EXPECT_EQ(sums[0].const_data_ptr(), memory);
  EXPECT_TRUE(at::equal(sums[0], at::full({3}, 7, at::kDouble)));
  EXPECT_FALSE(sums[1].defined()) << "the earlier group's must not come back";
  EXPECT_EQ(accumulator.global_examples(), 2);
}

TEST_F(Accumulated, GradientsThatWerePassedInAreNotChanged) {
  const auto optimizer = state();
  GradientAccumulator accumulator(optimizer, 0);
  const auto first = gradients(1, 1);
  accumulator.add(to_parts(first), 1, 0);
  accumulator.add(to_parts(gradients(1, 1)), 1, 0);
  EXPECT_TRUE(at::equal(first[0], at::full({3}, 1, at::kDouble)));
}

TEST_F(Accumulated, ExamplesWithoutAGlobalNumberAreCountedPerReplica) {
  const auto optimizer = state();
  GradientAccumulator accumulator(optimizer, 0);
  accumulator.add(to_parts(gradients(1, 1)), std::nullopt, 3);
  accumulator.add(to_parts(gradients(1, 1)), 10, 5);
  accumulator.add(to_parts(gradients(1, 1)), std::nullopt, 0);
  EXPECT_EQ(accumulator.global_examples(), 10);
  EXPECT_EQ(accumulator.local_examples(), 3);
}

// A gradient is as large as eight that are deferred, and 1e8 swallows what is added to it alone.
TEST_F(Accumulated, DeferredGradientsAreAddedInTheOrderOfTheirMicroBatches) {
  variables::VariableStore store{variables::VariableStoreOptions{}};
  const std::vector<variables::Variable> floats = {
      store.create({.name = "f", .initial = at::zeros({2})})};
  const optim::OptimizerState optimizer(optim::Sgd{}.rule(), floats, {});
  const at::Tensor leaf = floats.front().component(0);
  GradientAccumulator accumulator(optimizer, 0);
  for (int group = 0; group < 2; ++group) {
    at::Tensor expected;
    std::atomic<int> computed{0};
    int deferred = 0;
    for (int micro_batch = 0; micro_batch < 25; ++micro_batch) {
      const at::Tensor value =
          at::full({2}, micro_batch == 7 ? 1e8F : 1.0F + static_cast<float>(micro_batch));
      ReplicaGradients gradients(1);
      if (micro_batch % 10 == 4) {
        gradients[0].value = value;
      } else {
        gradients[0].deferred = std::make_shared<const KnownGradient>(leaf, value, &computed);
        ++deferred;
      }
      accumulator.add(gradients, 1, 0);
      expected = expected.defined() ? expected + value : value;
    }
    EXPECT_TRUE(at::equal(accumulator.divided(1)[0], expected));
    EXPECT_EQ(computed, deferred);
    accumulator.clear();
  }
  ReplicaGradients gradients(1);
  gradients[0].deferred = std::make_shared<const KnownGradient>(leaf, at::full({2}, 1.0F));
  accumulator.add(gradients, 1, 0);
  accumulator.clear();
  EXPECT_FALSE(accumulator.divided(1)[0].defined());
}

TEST_F(Accumulated, FrozenVariablesTakeNoMemory) {
  const auto optimizer = state({{.names = {"weight", "unused"}, .frozen = true}});
  GradientAccumulator accumulator(optimizer, 0);
  std::vector<at::Tensor> row(3);
  for (std::size_t i = 0; i < 3; ++i) {
    if (!optimizer.is_frozen(i)) row[i] = at::full({3}, 2, at::kDouble);
  }
  accumulator.add(to_parts(row), 1, 0);
  const auto sums = accumulator.divided(1);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(sums[i].defined(), row[i].defined()) << i;
}

}  // namespace
}  // namespace brigade::distribute
