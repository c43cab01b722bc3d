#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "brigade/distribute/strategy.h"
#include "brigade/layers/losses.h"
#include "tests/parity/examples.h"

namespace brigade::parity {

/// A model's variables before and after training.
struct Weights {
  std::vector<std::string> names;
  std::vector<at::Tensor> before;
  std::vector<at::Tensor> after;
};

template <class Model>
std::vector<at::Tensor> read_all(const distribute::Replicated<Model>& model) {
  std::vector<at::Tensor> values;
  for (const auto& variable : model.variables()) values.push_back(variable.read());
  return values;
}

/// How examples are batched for updates. Of 10 examples in batches of 4, 4 and 2, three replicas
/// always get uneven parts, and with four replicas two get no example of the last batch.
struct BatchPlan {
  std::int64_t examples = 10;
  std::int64_t batch = 4;
  int accumulate = 1;
};

/// Makes `steps` updates of `model` under `strategy`, in float64.
template <class Model, class Rule>
Weights train_model(distribute::Strategy& strategy, const distribute::Replicated<Model>& model,
                    int steps, const Rule& rule, const BatchPlan& plan = {}) {
  const auto optimizer = strategy.optimizer(model, rule, {.accumulate = plan.accumulate});
  Weights weights{.before = read_all(model)};
  for (const auto& variable : model.variables()) weights.names.push_back(variable.name());
  const auto batches =
      strategy.distribute(double_examples(plan.examples).batch(plan.batch).repeat());
  for (const auto& batch : batches) {
    if (optimizer.updates() == steps) break;
    strategy.run(
        [&](distribute::ReplicaContext&, const input::LabeledBatch& local_batch) {
          optimizer.minimize(layers::losses::sparse_softmax_cross_entropy(
              model(local_batch.features), local_batch.labels));
        },
        batch);
  }
  weights.after = read_all(model);
  return weights;
}

/// The same for a new `Model`.
template <class Model, class Rule>
Weights train_under(distribute::Strategy& strategy, int steps, const Rule& rule,
                    const BatchPlan& plan = {}) {
  const auto model = strategy.create([] {
    auto module = std::make_shared<Model>();
    module->to(at::kDouble);
    return module;
  });
  return train_model(strategy, model, steps, rule, plan);
}

/// Expects the same change of all variables, within `tolerance` relative to its norm.
inline void expect_same(const Weights& many, const Weights& one, double tolerance,
                        const std::string& where) {
  ASSERT_EQ(many.names, one.names);
  for (std::size_t i = 0; i < one.names.size(); ++i) {
    ASSERT_TRUE(many.before[i].equal(one.before[i])) << one.names[i] << " " << where;
    const double traveled = (one.after[i] - one.before[i]).norm().item<double>();
    const double apart = (many.after[i] - one.after[i]).norm().item<double>();
    EXPECT_GT(traveled, 0) << one.names[i] << " was not trained";
    EXPECT_LE(apart, tolerance * traveled) << one.names[i] << " " << where;
  }
}

}  // namespace brigade::parity
