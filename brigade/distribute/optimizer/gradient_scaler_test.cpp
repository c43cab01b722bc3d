#include "brigade/distribute/optimizer/gradient_scaler.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {
namespace {

using Outcome = GradientScaler::Outcome;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(GradientScaler, BeginsAsPyTorchs) {
  GradientScaler scaler({});
  EXPECT_EQ(scaler.scale(), 65536);
  for (int i = 0; i < 1999; ++i) scaler.update(Outcome::kFinite);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.update(Outcome::kFinite);
  EXPECT_EQ(scaler.scale(), 131072);
  scaler.update(Outcome::kOverflow);
  EXPECT_EQ(scaler.scale(), 65536);
}

TEST(GradientScaler, GrowsAfterUpdatesInSequence) {
  GradientScaler scaler({.initial_scale = 8, .growth_factor = 4, .growth_interval = 2});
  std::vector<double> scales;
  for (const Outcome outcome : {Outcome::kFinite, Outcome::kOverflow, Outcome::kFinite,
                                Outcome::kFinite, Outcome::kFinite, Outcome::kOverflow}) {
    scaler.update(outcome);
    scales.push_back(scaler.scale());
  }
  EXPECT_EQ(scales, (std::vector<double>{8, 4, 4, 16, 16, 8}));
}

TEST(GradientScaler, StaysWithinFloat) {
  GradientScaler scaler({.initial_scale = std::ldexp(1.0, 127), .growth_interval = 1});
  scaler.update(Outcome::kFinite);
  EXPECT_EQ(scaler.scale(), std::ldexp(1.0, 127));
  GradientScaler least({.initial_scale = std::ldexp(1.0, -24)});
  const Error error = error_from([&] { least.update(Outcome::kOverflow); });
  EXPECT_EQ(error.code(), ErrorCode::kAborted);
  EXPECT_TRUE(mentions(error, "infinite or NaN")) << error.what();
  EXPECT_EQ(least.scale(), std::ldexp(1.0, -24));
}

TEST(GradientScaler, ContinuesFromASavedState) {
  GradientScaler saved({.growth_interval = 3});
  saved.update(Outcome::kOverflow);
  saved.update(Outcome::kFinite);
  saved.update(Outcome::kFinite);
  GradientScaler restored({.growth_interval = 3});
  restored.restore(saved.save());
  EXPECT_EQ(restored.scale(), 32768);
  restored.update(Outcome::kFinite);
  EXPECT_EQ(restored.scale(), 65536);
  io::StateTree broken = saved.save();
  broken["scale"] = -1.0;
  EXPECT_EQ(error_from([&] { restored.restore(broken); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(restored.scale(), 65536);
}

TEST(GradientScaler, RefusesValuesThatMakeNoSense) {
  for (const GradientScalerOptions& options :
       {GradientScalerOptions{.initial_scale = 0},
        GradientScalerOptions{.initial_scale = kInfinity},
        GradientScalerOptions{.growth_factor = 0.5}, GradientScalerOptions{.backoff_factor = 1.0},
        GradientScalerOptions{.backoff_factor = std::nan("")},
        GradientScalerOptions{.growth_interval = 0}}) {
    const Error error = error_from([&] { GradientScaler scaler(options); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(mentions(error, "GradientScalerOptions::")) << error.what();
  }
}

TEST(AreFinite, SeesEveryElement) {
  const at::Tensor fine = at::full({3}, 1e30F), other = at::ones({2}, at::kDouble);
  EXPECT_TRUE(are_finite(std::vector<at::Tensor>{fine, at::Tensor(), other, at::empty({0})}));
  EXPECT_TRUE(are_finite({}));
  for (const double bad : {kInfinity, -kInfinity, std::nan("")}) {
    at::Tensor one = at::ones({2, 2}, at::kDouble);
    one[1][0] = bad;
    EXPECT_FALSE(are_finite(std::vector<at::Tensor>{fine, one})) << bad;
    const at::Tensor rows =
        at::sparse_coo_tensor(at::arange(2, at::kLong).view({1, 2}), one, {5, 2});
    EXPECT_FALSE(are_finite(std::vector<at::Tensor>{rows.coalesce()})) << bad;
  }
}

/// The same rows for any number of replicas.
PerReplica<at::Tensor> rows(int replicas) {
  const at::Tensor all = at::arange(12 * 3, at::kDouble).view({12, 3}).sin();
  const std::int64_t each = 12 / replicas;
  std::vector<at::Tensor> parts = all.split(each);
  return PerReplica<at::Tensor>(parts,
                                ExampleCounts::of(std::vector<std::int64_t>(parts.size(), each)));
}

/// A training whose loss overflows in a given replica in certain steps.
struct Training {
  explicit Training(int num_replicas, OptimizerOptions options)
      : replicas(num_replicas),
        strategy(cpus(num_replicas)),
        model(strategy.create<AffineModule>()),
        counter(strategy.scope(), "count"),
        adam(strategy.optimizer(model, optim::Adam{.learning_rate = 0.1},
                                with_counter(std::move(options)))) {}
  struct Counter {
    Counter(const Strategy::Scope&, const char* name)
        : variable(variables::make_variable(
              {.name = name,
               .initial = at::full({}, 0, at::kLong),
               .trainable = false,
               .synchronization = variables::Synchronization::kOnRead,
               .aggregation = variables::Aggregation::kOnlyFirstReplica})) {}
    variables::Variable variable;
  };
  OptimizerOptions with_counter(OptimizerOptions options) const {
    options.global_step = counter.variable;
    return options;
  }

  void step(std::optional<int> overflow_in = std::nullopt) {
    strategy.run(
        [&](ReplicaContext& context, const at::Tensor& x) {
          at::Tensor loss = (model(x) - 1).square().sum(1);
          if (context.replica_id() == overflow_in) loss = loss * kInfinity;
          variables::current_graph()->add_update_op("op", [&] {
            if (context.replica_id() == 0) ++updates_of_layers;
          });
          adam.minimize(loss.mean());
        },
        rows(replicas));
  }
  std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all;
    for (const auto& variable : model.variables()) {
      for (int replica = 0; replica < replicas; ++replica)
        all.push_back(variable.component(replica).detach().clone());
    }
    for (const auto& [name, slot] : adam.state().save("adam").slots) all.push_back(slot.clone());
    for (int replica = 0; replica < replicas; ++replica)
      all.push_back(counter.variable.component(replica).clone());
    return all;
  }

  const int replicas;
  MirroredStrategy strategy;
  Replicated<AffineModule> model;
  Counter counter;
  Optimizer adam;
  int updates_of_layers = 0;
};

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::equal(found[i], wanted[i])) << i << found[i] << wanted[i];
}

const OptimizerOptions kScaled{.gradient_scaler = GradientScalerOptions{.growth_interval = 3}};

TEST(OptimizerWithScaler, MakesTheUpdatesOfOneWithout) {
  for (const int replicas : {1, 2, 3}) {
    Training plain(replicas, {}), scaled(replicas, kScaled);
    for (int i = 0; i < 4; ++i) {
      plain.step();
      scaled.step();
    }
    expect_equal(scaled.state(), plain.state());
    EXPECT_EQ(scaled.adam.gradient_scale(), 131072);
    EXPECT_EQ(plain.adam.gradient_scale(), 1);
  }
}

TEST(OptimizerWithScaler, LeavesOutAnUpdateThatOverflowsInOneReplica) {
  for (const int replicas : {1, 2, 3}) {
    Training training(replicas, kScaled), without(replicas, kScaled);
    training.step();
    without.step();
    const auto before = training.state();
    training.step(replicas - 1);
    expect_equal(training.state(), before);
    EXPECT_EQ(training.adam.updates(), 1);
    EXPECT_EQ(training.adam.skipped_updates(), 1);
    EXPECT_TRUE(training.adam.was_skipped());
    EXPECT_FALSE(training.adam.is_update_step());
    EXPECT_EQ(training.adam.gradient_scale(), 32768);
    EXPECT_EQ(training.updates_of_layers, 1);
    training.step();
    without.step();
    EXPECT_TRUE(training.adam.is_update_step());
    EXPECT_EQ(training.updates_of_layers, 2);
    expect_equal(training.state(), without.state());
  }
}

TEST(OptimizerWithScaler, LeavesOutAllMicroBatchesOfAnUpdate) {
  OptimizerOptions options = kScaled;
  options.accumulate = 2;
  Training training(2, options), without(2, options);
  for (const std::optional<int> overflow : {std::optional<int>(1), {}, {}, {}}) {
    training.step(overflow);
  }
  EXPECT_EQ(training.adam.skipped_updates(), 1);
  EXPECT_EQ(training.adam.updates(), 1);
  without.step();
  without.step();
  expect_equal(training.state(), without.state());
  training.step(0);
  EXPECT_FALSE(training.adam.was_skipped()) << "the update is not due yet";
  const auto before = training.state();
  training.adam.flush();
  EXPECT_TRUE(training.adam.was_skipped());
  EXPECT_EQ(training.adam.micro_batches(), 0);
  expect_equal(training.state(), before);
}

TEST(OptimizerWithScaler, ComputesGradientsThatAreNotScaled) {
  Training training(2, kScaled);
  const auto batch = rows(2);
  const auto gradients = training.strategy.run(
      [&](ReplicaContext&, const at::Tensor& x) {
        const at::Tensor loss = (training.model(x) - 1).square().sum(1).mean();
        Gradients own = training.adam.compute_gradients(loss);
        const auto plain = torch::autograd::grad(
            {(training.model(x) - 1).square().sum(1).mean() * 0.5}, {training.model->weight});
        EXPECT_TRUE(own["weight"].equal(plain.front()));
        return own;
      },
      batch);
  Gradients average = average_gradients(gradients);
  average[0].fill_(kInfinity);
  const auto before = training.state();
  training.adam.apply_gradients(average);
  expect_equal(training.state(), before);
  EXPECT_EQ(training.adam.skipped_updates(), 1);
}

TEST(OptimizerWithScaler, ResumesToTheBit) {
  const std::vector<std::optional<int>> overflows = {{}, 1, {}, {}, {}, 0, {}, {}};
  Training whole(2, kScaled);
  for (const auto& overflow : overflows) whole.step(overflow);

  Training first(2, kScaled), second(2, kScaled);
  constexpr std::size_t kSaved = 4;
  for (std::size_t i = 0; i < kSaved; ++i) first.step(overflows[i]);
  optim::SavedOptimizer saved = first.adam.save("adam");
  EXPECT_EQ(saved.state.as_double("gradient_scaler", "scale"), 65536 / 2);
  for (std::size_t i = 0; i < first.model.variables().size(); ++i)
    second.model.variables()[i].assign(first.model.variables()[i].read());
  second.counter.variable.assign(first.counter.variable.read());
  second.adam.restore("adam", saved);
  for (std::size_t i = kSaved; i < overflows.size(); ++i) second.step(overflows[i]);
  expect_equal(second.state(), whole.state());
  EXPECT_EQ(second.adam.gradient_scale(), whole.adam.gradient_scale());

  saved.state["gradient_scaler"]["scale"] = 0.0;
  const auto before = second.state();
  EXPECT_EQ(error_from([&] { second.adam.restore("adam", saved); }).code(),
            ErrorCode::kInvalidArgument);
  expect_equal(second.state(), before);
}

TEST(OptimizerWithScaler, StartsWithItsOwnScaleIfNoneWasSaved) {
  Training plain(1, {}), scaled(1, kScaled);
  plain.step();
  scaled.adam.restore("adam", plain.adam.save("adam"));
  EXPECT_EQ(scaled.adam.gradient_scale(), 65536);
  plain.adam.restore("adam", scaled.adam.save("adam"));
}

}  // namespace
}  // namespace brigade::distribute
