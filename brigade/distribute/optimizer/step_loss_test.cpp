// The loss that `Optimizer::minimize` returns: `reduce_loss` has the bits of
// `reduce_mean_over_examples`, and no call where the loss came with the gradients.
#include "brigade/distribute/optimizer/step_loss.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/card_workers.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/synthetic.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

using device::testing::FakeDevice;

// libtorch counts the devices when its first backward begins.
[[maybe_unused]] const FakeDevice& registered_before_losses = FakeDevice::get();

/// y = x * weight, on any device and in any dtype.
struct Line : torch::nn::Module {
  Line(c10::Device device, at::ScalarType dtype) {
    weight = register_parameter("weight", at::full({3}, 0.7, dtype).to(device));
    bias = register_parameter("bias", at::full({3}, 0.1, dtype).to(device));
  }
  at::Tensor forward(const at::Tensor& x) const { return x * weight + bias; }
  at::Tensor weight, bias;
};

enum class LossShape { kMean, kPerExample, kPerElement };

struct LossCase {
  std::vector<int> replicas = {1, 1};
  bool on_cards = false;
  at::ScalarType dtype = at::kFloat;
  LossShape shape = LossShape::kMean;
  LossScale scale = LossScale::kMeanOverExamples;
  bool clips = false;
  int accumulate = 1;
  comm::CommunicationOptions communication = {};
  /// What the step reports in the loss's place; empty: the loss.
  std::function<at::Tensor(const at::Tensor& per_example)> report = {};
};

/// What one worker saw of each step.
struct LossesOfWorker {
  std::vector<at::Tensor> losses, means;
  std::vector<std::int64_t> calls;  // of the workers, for `reduce_loss`
};

at::Tensor loss_of(const LossCase& test, const at::Tensor& per_element) {
  const at::Tensor per_example = per_element.mean(1);
  if (test.scale == LossScale::kMeanOverExamples) {
    if (test.shape == LossShape::kPerElement) return per_element;
    return test.shape == LossShape::kPerExample ? per_example : per_example.mean();
  }
  const at::Tensor loss = test.shape == LossShape::kMean ? per_example.sum() : per_example;
  return test.scale == LossScale::kSum ? loss : loss * 0.125;
}

/// Of global batches of seven, seven and two examples, so that replicas have uneven parts, and some
/// have none.
LossesOfWorker losses_of(Strategy& strategy, const LossCase& test) {
  const auto model = strategy.create<Line>(strategy.devices().front().torch_device, test.dtype);
  const auto sgd =
      strategy.optimizer(model, optim::Sgd{.learning_rate = 0.25}, {.accumulate = test.accumulate});
  const comm::ProcessCommunicator* const workers =
      strategy.workers() ? strategy.workers()->communicator.get() : nullptr;
  const auto calls = [&] { return workers ? workers->traffic().collectives : 0; };
  LossesOfWorker seen;
  std::vector<at::Tensor> losses, means;
  for (const std::int64_t size : {7, 7, 2}) {
    const auto batch = strategy.split_batch(
        (at::arange(3 * size, test.dtype).view({size, 3}) + static_cast<double>(losses.size()))
            .sin());
    std::vector<at::Tensor> of_replicas(batch.size());
    const auto step_losses = strategy.run(
        [&](ReplicaContext& context, const at::Tensor& x) {
          const at::Tensor per_element = model.local().forward(x).square();
          const at::Tensor report = test.report ? test.report(per_element.mean(1)) : at::Tensor();
          const at::Tensor loss = loss_of(test, per_element);
          of_replicas[static_cast<std::size_t>(context.local_id)] =
              (report.defined() ? report : loss).detach();
          if (!test.clips) return sgd.minimize(loss, test.scale, report);
          Gradients sums = sgd.aggregate(sgd.compute_gradients(loss, test.scale, report));
          optim::clip_by_global_norm_(sums, 0.125);
          return sgd.apply_gradients(sums);
        },
        batch);
    const std::int64_t before = calls();
    losses.push_back(strategy.reduce_loss(step_losses));
    seen.calls.push_back(calls() - before);
    // The fake card can be read when all workers have queued their work.
    if (workers) strategy.workers()->communicator->barrier();
    for (at::Tensor& each : of_replicas) {
      if (!test.report && each.dim() > 0)
        each = test.scale == LossScale::kMeanOverExamples ? each.mean() : each.sum();
    }
    const PerReplica<at::Tensor> own(std::move(of_replicas), batch.examples());
    means.push_back(test.scale == LossScale::kMeanOverExamples
                        ? strategy.reduce_mean_over_examples(own)
                        : strategy.reduce(comm::ReduceOp::kSum, own));
  }
  if (workers) strategy.workers()->communicator->barrier();
  for (std::size_t i = 0; i < losses.size(); ++i) {
    seen.losses.push_back(losses[i].to(c10::kCPU));
    seen.means.push_back(means[i].to(c10::kCPU));
  }
  model.variables()[0].component(0).to(c10::kCPU);
  return seen;
}

std::vector<LossesOfWorker> losses_of_workers(const LossCase& test) {
  std::mutex mutex;
  std::vector<LossesOfWorker> all(test.replicas.size());
  const auto keep = [&](Strategy& strategy) {
    LossesOfWorker seen = losses_of(strategy, test);
    const std::lock_guard lock(mutex);
    all[static_cast<std::size_t>(strategy.worker_index())] = std::move(seen);
  };
  if (test.on_cards) {
    run_card_workers(static_cast<int>(test.replicas.size()), keep);
  } else {
    run_workers(test.replicas, keep, test.communication);
  }
  return all;
}

/// `calls`: how many `reduce_loss` makes in each step.
void expect_exact(const LossCase& test, const std::vector<std::int64_t>& calls) {
  OneDeviceStrategy alone("cpu:0");
  LossCase whole = test;
  whole.accumulate = 1;  // the losses do not depend on it as long as nothing was updated
  const LossesOfWorker expected = losses_of(alone, whole);
  for (const LossesOfWorker& seen : losses_of_workers(test)) {
    EXPECT_EQ(seen.calls, calls);
    ASSERT_EQ(seen.losses.size(), 3u);
    for (std::size_t step = 0; step < seen.losses.size(); ++step) {
      const at::Tensor& loss = seen.losses[step];
      EXPECT_EQ(loss.scalar_type(), test.report ? loss.scalar_type() : test.dtype);
      EXPECT_EQ(loss.sizes(), seen.means[step].sizes());
      EXPECT_TRUE(loss.equal(seen.means[step])) << step << ": " << loss << seen.means[step];
      if (test.accumulate == 1)
        EXPECT_TRUE(at::allclose(loss, expected.losses[step], 1e-5))
            << step << ": " << loss << expected.losses[step];
    }
  }
}

const std::vector<std::int64_t> kNoCalls = {0, 0, 0};

TEST(StepLoss, ComesWithTheGradientsInTheBitsOfACallOfItsOwn) {
  for (const std::vector<int>& replicas : {std::vector{1, 1}, {2, 1}, {1, 3}}) {
    for (const LossShape shape :
         {LossShape::kMean, LossShape::kPerExample, LossShape::kPerElement}) {
      for (const bool clips : {false, true}) {
        SCOPED_TRACE(base::str_cat("shape ", static_cast<int>(shape), ", clips ", clips));
        expect_exact({.replicas = replicas, .shape = shape, .clips = clips}, kNoCalls);
      }
    }
  }
}

TEST(StepLoss, ComesWithTheLastOfSeveralBuckets) {
  LossCase test{.replicas = {2, 1}};
  test.communication.bytes_per_pack = 1;
  expect_exact(test, kNoCalls);
}

TEST(StepLoss, OfASumIsTheSum) {
  for (const LossScale scale : {LossScale::kSum, LossScale::kAlreadyScaled}) {
    for (const LossShape shape : {LossShape::kMean, LossShape::kPerExample})
      expect_exact({.replicas = {2, 1}, .shape = shape, .scale = scale}, kNoCalls);
  }
}

TEST(StepLoss, ComesWithTheGradientsOfCardsAndTheHostDoesNotWait) {
  for (const bool clips : {false, true}) {
    const std::vector<LossesOfWorker> all =
        losses_of_workers({.replicas = {1, 1, 1}, .on_cards = true, .clips = clips});
    for (const LossesOfWorker& seen : all) {
      EXPECT_EQ(seen.calls, kNoCalls);
      for (std::size_t step = 0; step < seen.losses.size(); ++step)
        EXPECT_TRUE(seen.losses[step].equal(all[0].losses[step]));
    }
    expect_exact({.replicas = {1, 1, 1}, .clips = clips}, kNoCalls);
  }
}

TEST(StepLoss, MayBeReportedWithItsParts) {
  const auto parts = [](std::int64_t count) {
    return [count](const at::Tensor& per_example) {
      std::vector<at::Tensor> values;
      for (std::int64_t i = 0; i < count; ++i)
        values.push_back(per_example.detach().mean() * static_cast<double>(i + 1));
      return at::stack(values);
    };
  };
  expect_exact({.replicas = {2, 1}, .report = parts(16)}, kNoCalls);
  expect_exact({.replicas = {2, 1}, .report = parts(17)}, {1, 1, 1});
}

TEST(StepLoss, OfMicroBatchesIsReducedInACall) {
  expect_exact({.replicas = {1, 1}, .accumulate = 3}, {1, 1, 0});
}

TEST(StepLoss, IsNotRoundedLikeGradients) {
  LossCase test;
  test.communication.wire = comm::WireDtype::kBFloat16;
  const std::vector<LossesOfWorker> all = losses_of_workers(test);
  for (const LossesOfWorker& seen : all) {
    EXPECT_EQ(seen.calls, (std::vector<std::int64_t>{1, 1, 1}));
    for (std::size_t step = 0; step < seen.losses.size(); ++step)
      EXPECT_TRUE(seen.losses[step].equal(seen.means[step]));
  }
}

TEST(StepLoss, OfAnotherDtypeThanTheGradientsIsReducedInACall) {
  const auto as_double = [](const at::Tensor& per_example) {
    return per_example.detach().mean(at::kDouble);
  };
  expect_exact({.report = as_double}, {1, 1, 1});
  expect_exact({.dtype = at::kDouble, .report = as_double}, kNoCalls);
}

TEST(StepLoss, IsThatOfItsOwnStepAlsoAfterAnUpdateWithoutOne) {
  run_workers({1, 1}, [](Strategy& strategy) {
    const auto model = strategy.create<Line>(c10::Device(c10::kCPU), at::kFloat);
    const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.0});
    const auto batch = strategy.split_batch(at::full({2, 3}, 1.0));
    std::vector<float> losses;
    for (int step = 0; step < 3; ++step) {
      const auto of_step = strategy.run(
          [&](const at::Tensor& x) {
            const at::Tensor loss = model.local().forward(x).square().mean();
            const StepLoss returned = sgd.minimize(loss);
            // Gradients of the program's own have no loss.
            Gradients own = sgd.compute_gradients(model.local().forward(x).sum(1));
            sgd.apply_gradients(Gradients(own.variables(),
                                          {own.values().begin(), own.values().end()},
                                          GradientState::kLocal, own.step()));
            return returned;
          },
          batch);
      losses.push_back(strategy.reduce_loss(of_step).item<float>());
    }
    EXPECT_EQ(losses, std::vector<float>(3, losses.front()));
    EXPECT_NEAR(losses.front(), 0.64, 1e-6);
  });
}

TEST(StepLoss, ThatOneReplicaDoesNotGiveIsAnErrorInTheOthers) {
  for (const int without : {0, 2}) {
    std::atomic<int> refused = 0;
    try {
      run_workers({2, 1}, [&](Strategy& strategy) {
        const auto model = strategy.create<Line>(c10::Device(c10::kCPU), at::kFloat);
        const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
        const auto batch = strategy.split_batch(at::full({3, 3}, 1.0));
        const Error error = error_from([&] {
          strategy.run(
              [&](ReplicaContext& context, const at::Tensor& x) {
                Gradients own = sgd.compute_gradients(model.local().forward(x).sum(1));
                if (context.replica_id() == without)
                  own = Gradients(own.variables(), {own.values().begin(), own.values().end()},
                                  GradientState::kLocal, own.step());
                sgd.apply_gradients(own);
              },
              batch);
        });
        if (mentions(error, "and all 3 together 2")) ++refused;
      });
    } catch (const Error&) {  // of a worker that lost the other
    }
    EXPECT_GE(refused, 1) << without;
  }
}

TEST(StepLoss, SaysWhyItCannotBeReduced) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<Line>(c10::Device(c10::kCPU), at::kFloat);
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  const auto without_loss = strategy.run([](ReplicaContext&) { return StepLoss(); });
  const Error no_loss = error_from([&] { strategy.reduce_loss(without_loss); });
  EXPECT_EQ(no_loss.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(no_loss, "have no loss")) << no_loss.what();
  const Error in_replica = error_from([&] {
    strategy.run([&](ReplicaContext& context) { context.strategy().reduce_loss(without_loss); });
  });
  EXPECT_TRUE(mentions(in_replica, "reduce_loss was called inside a replica")) << in_replica.what();
}

TEST(StepLoss, IsDetachedAndKeepsNoGraph) {
  OneDeviceStrategy strategy("cpu:0");
  const auto model = strategy.create<Line>(c10::Device(c10::kCPU), at::kFloat);
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  const auto losses = strategy.run(
      [&](const at::Tensor& x) { return sgd.minimize(model.local().forward(x).square().mean(1)); },
      strategy.split_batch(at::full({4, 3}, 1.0)));
  EXPECT_EQ(losses[0].local().sizes(), at::IntArrayRef({4}));
  EXPECT_FALSE(losses[0].local().requires_grad());
  const at::Tensor loss = strategy.reduce_loss(losses);
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_FALSE(loss.is_alias_of(losses[0].local()));
}

}  // namespace
}  // namespace brigade::distribute
