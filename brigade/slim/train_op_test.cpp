#include "brigade/slim/train_op.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/card_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/regularizers.h"
#include "brigade/layers/v1/tf_losses.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/get_variable.h"

namespace brigade::slim {
namespace {

namespace losses = layers::v1::losses;
using device::testing::FakeDevice;
using distribute::central_cpus;
using distribute::CentralStorageStrategy;
using distribute::cpus;
using distribute::MirroredStrategy;
using variables::get_variable;

// libtorch counts the devices when its first backward begins.
[[maybe_unused]] const FakeDevice& registered_before_backward = FakeDevice::get();

const variables::VariableOptions kWide{.dtype = at::kDouble};

at::Tensor rows(std::int64_t first, std::int64_t count) {
  return at::arange(first * 3, (first + count) * 3, at::kDouble).view({count, 3}).sin();
}

/// Batches of these sizes from the same infinite sequence of rows.
GlobalBatchSource<at::Tensor> batches(std::vector<std::int64_t> sizes) {
  return
      [sizes, next = std::size_t{0}, row = std::int64_t{0}]() mutable -> std::optional<at::Tensor> {
        if (next == sizes.size()) return std::nullopt;
        const std::int64_t size = sizes[next++];
        row += size;
        return rows(row - size, size);
      };
}

/// A linear model with a regularized weight and a variable that the loss does not depend on.
at::Tensor regression(const at::Tensor& x) {
  const variables::VariableOptions decayed{.dtype = at::kDouble,
                                           .regularizer = layers::l2_regularizer(0.1)};
  const at::Tensor w = get_variable("w", {{2, 3}}, decayed).local();
  const at::Tensor b = get_variable("b", {{2}}, kWide).local();
  get_variable("idle", {{2}}, kWide);
  losses::add_loss((x.matmul(w.t()) + b - 1).square().sum(1).mean());
  return losses::get_total_loss();
}

/// The weights after training on all batches, and the sum of the losses.
at::Tensor trained(distribute::Strategy& strategy, const TrainOpOptions& options = {}) {
  const auto train_op = create_train_op<at::Tensor>(strategy, regression, batches({8, 7, 1}),
                                                    optim::Adam{.learning_rate = 0.1}, options);
  at::Tensor sum = at::zeros({1}, at::kDouble);
  while (const auto loss = train_op()) sum += *loss;
  EXPECT_EQ(train_op.global_step(), 3);
  std::vector<at::Tensor> values;
  for (const auto& variable : train_op.variables()) values.push_back(variable.read().flatten());
  values.push_back(sum);
  return at::cat(values);
}

void expect_all_strategies_agree(const TrainOpOptions& options) {
  distribute::OneDeviceStrategy one("cpu:0");
  MirroredStrategy mirrored(cpus(3));
  CentralStorageStrategy central(central_cpus(2));
  CentralStorageStrategy copies(central_cpus(3, variables::Caching::kAlways));
  const at::Tensor expected = trained(one, options);
  EXPECT_TRUE(at::allclose(expected, trained(mirrored, options), 1e-11, 1e-11));
  EXPECT_TRUE(at::allclose(expected, trained(central, options), 1e-11, 1e-11));
  EXPECT_TRUE(at::allclose(expected, trained(copies, options), 1e-11, 1e-11));
}

TEST(TrainOp, AnyNumberOfReplicasMakesTheSameUpdates) {
  expect_all_strategies_agree({});
}

TEST(TrainOp, ClippedAndMultipliedGradientsAreTheSameForAnyNumberOfReplicas) {
  expect_all_strategies_agree(
      {.clip_gradient_norm = 0.3, .gradient_multipliers = {{"w", 3.0}, {"b", 0.5}}});
}

TEST(TrainOp, DifferentClippingIsRefusedByAllWorkersWithBothValues) {
  std::atomic<int> refused_workers = 0;
  distribute::run_workers({1, 1}, [&](distribute::MultiWorkerMirroredStrategy& strategy) {
    const double norm = strategy.is_chief() ? 0.25 : 0.5;
    const Error error = distribute::error_from([&] {
      create_train_op<at::Tensor>(strategy, regression, batches({8}), optim::Sgd{},
                                  {.clip_gradient_norm = norm});
    });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    EXPECT_TRUE(distribute::mentions(
        error, "/job:worker/task:1 has clip_gradient_norm 0.5 and /job:worker/task:0 has 0.25"))
        << error.what();
    ++refused_workers;
  });
  EXPECT_EQ(refused_workers, 2);
}

/// Two weights whose gradients are (3, 4) and (0.3, 0.4), from zero.
at::Tensor slope(const at::Tensor& x) {
  const variables::VariableOptions zeros{.dtype = at::kDouble,
                                         .initializer = variables::zeros_initializer()};
  const at::Tensor c = at::arange(3, 5, at::kDouble);
  const at::Tensor steep = get_variable("trunk/w", {{2}}, zeros).local();
  const at::Tensor flat = get_variable("head/w", {{2}}, zeros).local();
  return (steep * c).sum() + (flat * c * 0.1).sum() + 0.0 * x.sum();
}

/// trunk/w and head/w, concatenated, after one step with rate 1.
std::vector<double> after_a_step(const TrainOpOptions& options) {
  MirroredStrategy strategy(cpus(2));
  const auto train_op = create_train_op<at::Tensor>(strategy, slope, batches({4}),
                                                    optim::Sgd{.learning_rate = 1.0}, options);
  EXPECT_TRUE(train_op().has_value());
  const auto scope = strategy.scope();
  std::vector<double> values;
  for (const auto& variable : variables::trainable_variables()) {
    for (std::int64_t i = 0; i < 2; ++i) values.push_back(variable.read()[i].item<double>());
  }
  return values;
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-12);
}

TEST(TrainOp, EachGradientIsClippedByItsOwnNorm) {
  expect_near(after_a_step({}), {-3, -4, -0.3, -0.4});
  expect_near(after_a_step({.clip_gradient_norm = 1.0}), {-0.6, -0.8, -0.3, -0.4});
}

TEST(TrainOp, MultipliersComeBeforeClipping) {
  expect_near(after_a_step({.gradient_multipliers = {{"head/w", 10.0}}}), {-3, -4, -3, -4});
  expect_near(after_a_step({.clip_gradient_norm = 2.5, .gradient_multipliers = {{"head/w", 10.0}}}),
              {-1.5, -2, -1.5, -2});
}

TEST(TrainOp, UntrainedVariablesDoNotChange) {
  MirroredStrategy strategy(cpus(2));
  const auto train_op = create_train_op<at::Tensor>(strategy, slope, batches({4, 4}), optim::Adam{},
                                                    {.variables_to_train = {"head"}});
  ASSERT_EQ(train_op.variables().size(), 1u);
  EXPECT_EQ(train_op.variables().front().name(), "head/w");
  while (train_op()) {
  }
  const auto scope = strategy.scope();
  const auto trunk = variables::trainable_variables("trunk").front().read();
  EXPECT_TRUE(trunk.equal(at::zeros({2}, at::kDouble)));
  EXPECT_FALSE(train_op.variables().front().read().equal(trunk));
}

/// Not finite from the second batch, in the replica that has row 4.
at::Tensor explosive(const at::Tensor& x) {
  const at::Tensor w = get_variable("w", {{3}}, kWide).local();
  const double factor =
      x.size(0) > 0 && x[0].equal(rows(4, 1)[0]) ? std::numeric_limits<double>::infinity() : 1.0;
  return (x * w).mean() * factor;
}

TEST(TrainOp, ALossThatIsNotFiniteThrowsBeforeAnyUpdate) {
  MirroredStrategy strategy(cpus(2));
  const auto train_op =
      create_train_op<at::Tensor>(strategy, explosive, batches({2, 4}), optim::Sgd{});
  ASSERT_TRUE(train_op().has_value());
  const at::Tensor before = train_op.variables().front().read();
  try {
    train_op();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(std::string(error.what()).find("LossTensor is inf or nan"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("global step 1"), std::string::npos);
  }
  EXPECT_TRUE(before.equal(train_op.variables().front().read()));
  EXPECT_EQ(train_op.global_step(), 1);
}

at::Tensor mean_of_products(const at::Tensor& x) {
  const at::Tensor w = get_variable("w", {{3}}, kWide).local();
  return (x * w).mean();
}

TEST(TrainOp, OnACardTheLossIsReadOnlyWhenTheCheckIsDue) {
  distribute::CardStrategy strategy;
  at::Tensor data = at::ones({40, 3}, at::kDouble);
  data.narrow(0, 24, 4).fill_(std::numeric_limits<double>::infinity());  // the batch of step 6
  const auto train_op =
      create_train_op(strategy, mean_of_products, input::from_tensor_slices(data).batch(4),
                      optim::Sgd{}, {.check_numerics_every = 4});
  EXPECT_EQ(train_op.global_step(), 0);
  std::vector<int> waits;
  const auto step = [&] {
    const int before = FakeDevice::get().host_waits();
    train_op();
    waits.push_back(FakeDevice::get().host_waits() - before);
  };
  for (int i = 0; i < 7; ++i) step();
  EXPECT_EQ(waits, (std::vector<int>{0, 0, 0, 1, 0, 0, 0}));
  const Error error = distribute::error_from(step);
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_NE(std::string(error.what()).find("the total loss of global step 6 is"), std::string::npos)
      << error.what();
  train_op.check_numerics();  // it is said once
}

TEST(TrainOp, OnACardTheLossIsCheckedWhereItIsRead) {
  distribute::CardStrategy strategy;
  at::Tensor data = at::ones({8, 3}, at::kDouble);
  data.narrow(0, 4, 4).fill_(std::numeric_limits<double>::quiet_NaN());
  const auto train_op = create_train_op(strategy, mean_of_products,
                                        input::from_tensor_slices(data).batch(4), optim::Sgd{});
  train_op();
  train_op.check_numerics();
  train_op();
  const Error error = distribute::error_from([&] { train_op.check_numerics(); });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
}

TEST(TrainOp, AcceptsALossThatIsNotFiniteIfConfigured) {
  MirroredStrategy strategy(cpus(2));
  const auto train_op = create_train_op<at::Tensor>(strategy, explosive, batches({2, 4}),
                                                    optim::Sgd{}, {.check_numerics = false});
  train_op();
  EXPECT_TRUE(train_op().has_value());
  EXPECT_EQ(train_op.global_step(), 2);
}

TEST(TrainOp, AReplicaWithoutExamplesIsNoError) {
  MirroredStrategy strategy(cpus(3));
  const auto train_op = create_train_op<at::Tensor>(strategy, regression, batches({3, 1}),
                                                    optim::Sgd{.learning_rate = 0.1});
  train_op();
  const auto loss = train_op();
  ASSERT_TRUE(loss.has_value());
  EXPECT_TRUE(std::isfinite(loss->item<double>()));
  EXPECT_FALSE(train_op().has_value());
}

TEST(TrainOp, AFailedStepKeepsItsBatch) {
  MirroredStrategy strategy(cpus(2));
  std::atomic<int> calls{0};
  const auto flaky = [&](const at::Tensor& x) {
    if (++calls == 3) throw Error(ErrorCode::kUnavailable, "gone for a moment");
    return regression(x);
  };
  const auto train_op = create_train_op<at::Tensor>(strategy, flaky, batches({4, 4}), optim::Sgd{});
  EXPECT_THROW(train_op(), Error);  // calls 2 and 3; call 1 made the variables
  int steps = 0;
  while (train_op()) ++steps;
  EXPECT_EQ(steps, 2);
}

TEST(TrainOp, ASecondTrainOpReusesTheVariablesAndMayNotCount) {
  MirroredStrategy strategy(cpus(2));
  const auto both = create_train_op<at::Tensor>(strategy, slope, batches({2, 2}), optim::Sgd{});
  const auto head =
      create_train_op<at::Tensor>(strategy, slope, batches({2, 2}), optim::Sgd{},
                                  {.variables_to_train = {"head"}, .count_steps = false});
  both();
  head();
  EXPECT_EQ(both.global_step(), 1);
  EXPECT_EQ(head.global_step(), 1);
  EXPECT_EQ(head.optimizer().updates(), 1);
}

TEST(TrainOp, TrainsOnOnePassOverADataset) {
  MirroredStrategy strategy(cpus(2));
  const auto dataset = input::from_tensor_slices(rows(0, 10)).batch(4);
  const auto train_op = create_train_op(strategy, regression, dataset, optim::Sgd{});
  int steps = 0;
  while (train_op()) ++steps;
  EXPECT_EQ(steps, 3);
}

at::Tensor normalized(const at::Tensor& x) {
  const at::Tensor w = get_variable("w", {{3}}, kWide).local();
  return (layers::batch_norm(x, {.decay = 0.5}) * w).square().mean();
}

/// The moving mean after one step on the first four rows.
at::Tensor moving_mean(distribute::Strategy& strategy, UpdateOps update_ops) {
  const auto train_op = create_train_op<at::Tensor>(strategy, normalized, batches({4}),
                                                    optim::Sgd{}, {.update_ops = update_ops});
  train_op();
  const auto scope = strategy.scope();
  return variables::get_variables("model_variables", "BatchNorm/moving_mean").front().read();
}

TEST(TrainOp, UpdateOpsRunInAllReplicasTheFirstOrNone) {
  MirroredStrategy all(cpus(2)), first(cpus(2)), none(cpus(2));
  EXPECT_TRUE(at::allclose(moving_mean(all, UpdateOps::kRun), rows(0, 4).mean(0) * 0.5, 1e-12));
  EXPECT_TRUE(at::allclose(moving_mean(first, UpdateOps::kRunInFirstReplica),
                           rows(0, 2).mean(0) * 0.5, 1e-12));
  EXPECT_TRUE(at::allclose(moving_mean(none, UpdateOps::kSkip), at::zeros({3}, at::kDouble)));
}

TEST(TrainOp, ARetriedStepRunsItsUpdateOpsOnce) {
  MirroredStrategy strategy(cpus(2));
  std::atomic<bool> fails = false;
  const auto total_loss = [&](const at::Tensor& x) {
    const distribute::ReplicaContext* context = distribute::current_replica_context();
    if (fails && context != nullptr && context->replica_id() == 1)
      throw Error(ErrorCode::kAborted, "a peer is gone");
    return normalized(x);
  };
  const auto train_op =
      create_train_op<at::Tensor>(strategy, total_loss, batches({4}), optim::Sgd{});
  fails = true;
  EXPECT_THROW(train_op(), Error);
  fails = false;
  EXPECT_TRUE(train_op());
  const auto scope = strategy.scope();
  const auto mean = variables::get_variables("model_variables", "BatchNorm/moving_mean").front();
  EXPECT_TRUE(at::allclose(mean.read(), rows(0, 4).mean(0) * 0.5, 1e-12)) << mean.read();
}

TEST(TrainOp, ArgumentScopesAtCreationApplyInEveryStep) {
  MirroredStrategy strategy(cpus(2));
  const auto train_op = [&] {
    const auto defaults = layers::arg_scope<layers::batch_norm>({.scale = true});
    return create_train_op<at::Tensor>(strategy, normalized, batches({4, 4}),
                                       optim::Sgd{.learning_rate = 0.1});
  }();
  train_op();
  const auto scope = strategy.scope();
  const auto gamma = variables::trainable_variables("BatchNorm/gamma").front().read();
  EXPECT_FALSE(gamma.equal(at::ones({3}, at::kDouble)));
}

/// The code of the error of creating the train op and making a step.
ErrorCode refusal(const TrainOpOptions& options,
                  const TotalLossFunction<at::Tensor>& loss = regression,
                  std::vector<std::int64_t> sizes = {4}) {
  MirroredStrategy strategy(cpus(2));
  try {
    create_train_op<at::Tensor>(strategy, loss, batches(std::move(sizes)), optim::Sgd{}, options)();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(TrainOp, RefusesInvalidArguments) {
  EXPECT_EQ(refusal({.clip_gradient_norm = -1.0}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({.gradient_multipliers = {{"unknown", 2.0}}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({.variables_to_train = {"nowhere"}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({.gradient_multipliers = {{"idle", 2.0}}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({}, [](const at::Tensor& x) { return regression(x).expand({2}); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({}, [](const at::Tensor& x) { return x.mean(); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal({}, regression, {}), ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace brigade::slim
