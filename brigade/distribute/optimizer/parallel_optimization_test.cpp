#include "brigade/distribute/optimizer/parallel_optimization.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/input/tensor_structure.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

using variables::get_variable;

at::Tensor rows(std::int64_t first, std::int64_t count) {
  return at::arange(first * 3, (first + count) * 3, at::kDouble).view({count, 3}).sin();
}

/// Batches of these sizes from the same endless sequence of rows.
BatchSource<at::Tensor> batches(std::vector<std::int64_t> sizes) {
  return
      [sizes, next = std::size_t{0}, row = std::int64_t{0}]() mutable -> std::optional<at::Tensor> {
        if (next == sizes.size()) return std::nullopt;
        const std::int64_t size = sizes[next++];
        row += size;
        return rows(row - size, size);
      };
}

at::Tensor mean_loss(const at::Tensor& x) {
  const variables::VariableOptions wide{.dtype = at::kDouble};
  const at::Tensor w = get_variable("w", {{2, 3}}, wide).local();
  const at::Tensor b = get_variable("b", {{2}}, wide).local();
  return (x.matmul(w.t()) + b - 1).square().sum(1).mean();
}

ModelFunction<at::Tensor> linear_model() {
  return [](const InputFunction<at::Tensor>& input_fn) { return mean_loss(input_fn()); };
}

TowerOptions towers(int count) {
  TowerOptions options{.devices = {}, .allow_oversubscription = true};
  for (int tower = 0; tower < count; ++tower)
    options.devices.push_back(base::str_cat("cpu:", tower));
  return options;
}

ParallelOptimization<at::Tensor> optimization(BatchSource<at::Tensor> source, TowerOptions options,
                                              ModelFunction<at::Tensor> model = linear_model()) {
  return create_parallel_optimization<at::Tensor>(
      std::move(model), std::move(source), optim::Sgd{.learning_rate = 0.1}, std::move(options));
}

/// The values of all variables, concatenated, after training on all batches.
at::Tensor trained(ParallelOptimization<at::Tensor> training) {
  while (training.update()) {
  }
  std::vector<at::Tensor> values;
  for (const auto& variable : training.variables()) values.push_back(variable.read().flatten());
  return at::cat(values);
}

TEST(ParallelOptimization, SeveralTowersTrainAsOneTowerOnAllTheirBatches) {
  const at::Tensor one = trained(optimization(batches({8, 8, 8}), towers(1)));
  EXPECT_TRUE(at::allclose(one, trained(optimization(batches({4, 4, 4, 4, 4, 4}), towers(2))),
                           1e-12, 1e-12));
  EXPECT_TRUE(at::allclose(
      one, trained(optimization(batches({2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}), towers(4))), 1e-12,
      1e-12));
}

TEST(ParallelOptimization, UnevenBatchesAndAnEndInTheMiddleOfAStepAreExact) {
  const at::Tensor one = trained(optimization(batches({8, 3}), towers(1)));
  const at::Tensor three = trained(optimization(batches({5, 2, 1, 3}), towers(3)));
  EXPECT_TRUE(at::allclose(one, three, 1e-12, 1e-12));
}

TEST(ParallelOptimization, SlicesOfOneBatchAreTheSameAsTheWhole) {
  TowerOptions sliced = towers(3);
  sliced.input = TowerInput::kSlices;
  EXPECT_TRUE(at::allclose(trained(optimization(batches({8, 7, 1}), towers(1))),
                           trained(optimization(batches({8, 7, 1}), sliced)), 1e-12, 1e-12));
}

TEST(ParallelOptimization, TheLossIsTheMeanOverAllTowersExamples) {
  auto one = optimization(batches({7}), towers(1));
  auto two = optimization(batches({5, 2}), towers(2));
  EXPECT_TRUE(at::allclose(*one.update(), *two.update(), 1e-12, 1e-12));
}

TEST(ParallelOptimization, TheGlobalStepCountsUpdatesNotTowers) {
  auto two = optimization(batches({4, 4, 4, 4, 4, 4}), towers(2));
  EXPECT_EQ(two.global_step(), 0);
  int steps = 0;
  while (two.update()) ++steps;
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(two.global_step(), 3);
  EXPECT_EQ(two.global_step_variable().name(), "global_step");
}

TEST(ParallelOptimization, TowersRunAtTheSameTime) {
  auto three =
      optimization(batches({2, 2, 2}), towers(3), [](const InputFunction<at::Tensor>& input_fn) {
        const at::Tensor loss = mean_loss(input_fn());
        // If one tower ran after the other, this would wait until its deadline and fail.
        if (const auto* context = current_replica_context()) context->barrier();
        return loss;
      });
  EXPECT_TRUE(three.update().has_value());
}

TEST(ParallelOptimization, EachTowerHasItsNameScopeAndVariablesHaveNone) {
  std::vector<std::string> scopes(2);
  auto two =
      optimization(batches({2, 2}), towers(2), [&](const InputFunction<at::Tensor>& input_fn) {
        if (const auto* context = current_replica_context()) {
          scopes[static_cast<std::size_t>(context->replica_id())] =
              variables::current_graph()->name_scope();
        }
        return mean_loss(input_fn());
      });
  two.update();
  EXPECT_EQ(scopes, (std::vector<std::string>{"tower_0/", "tower_1/"}));
  EXPECT_EQ(two.variables().front().name(), "w");
}

TEST(ParallelOptimization, AModelMayTakeSeveralBatchesPerStep) {
  std::vector<std::vector<double>> taken(2);
  auto two = optimization(batches({1, 1, 1, 1}), towers(2),
                          [&](const InputFunction<at::Tensor>& input_fn) {
                            const at::Tensor first = input_fn();
                            const at::Tensor second = input_fn();
                            if (const auto* context = current_replica_context()) {
                              auto& own = taken[static_cast<std::size_t>(context->replica_id())];
                              own = {first[0][0].item<double>(), second[0][0].item<double>()};
                            }
                            return mean_loss(at::cat({first, second}));
                          });
  two.update();
  const auto value = [](std::int64_t row) { return rows(row, 1)[0][0].item<double>(); };
  EXPECT_EQ(taken[0], (std::vector<double>{value(0), value(1)}));
  EXPECT_EQ(taken[1], (std::vector<double>{value(2), value(3)}));
}

TEST(ParallelOptimization, AFailingTowerIsNamedAndTheNextStepWorks) {
  int step = 0;
  auto two = optimization(batches({2, 2, 2, 2}), towers(2),
                          [&](const InputFunction<at::Tensor>& input_fn) {
                            const at::Tensor loss = mean_loss(input_fn());
                            const auto* context = current_replica_context();
                            if (context && context->replica_id() == 1 && step == 0)
                              throw Error(ErrorCode::kDataLoss, "broken image");
                            return loss;
                          });
  try {
    two.update();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(std::string(error.what()).find("eplica 1"), std::string::npos) << error.what();
  }
  step = 1;
  EXPECT_TRUE(two.update().has_value());
}

TEST(ParallelOptimization, RefusesEmptyInputAndModelsThatIgnoreIt) {
  try {
    optimization(batches({}), towers(1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
  }
  EXPECT_THROW(optimization(batches({2}), towers(1),
                            [](const InputFunction<at::Tensor>&) { return mean_loss(rows(0, 1)); }),
               Error);
}

}  // namespace
}  // namespace brigade::distribute
