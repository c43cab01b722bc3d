// N replicas give the result of one on the global batch, also with learning-rate schedules,
// gradient clipping, and averages of weights.
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <vector>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/optim/clipping.h"
#include "brigade/optim/moving_average.h"
#include "brigade/optim/schedule.h"
#include "brigade/optim/sgd.h"

namespace brigade::parity {
namespace {

using distribute::AffineModule;
using distribute::cpus;
using distribute::Gradients;
using distribute::MirroredStrategy;
using distribute::ReplicaContext;

struct Trained {
  std::vector<at::Tensor> weights, averages;
  std::vector<double> norms;  // of replica 0, before clipping
};

optim::SchedulePtr warm_cosine() {
  const optim::CosineDecay decay{.initial_learning_rate = 0.2, .decay_steps = 8};
  return optim::WarmUp{.warmup_steps = 2, .then = decay.schedule()}.schedule();
}

/// Two epochs over seven rows in batches of three, in float64.
Trained train(int replicas) {
  MirroredStrategy strategy(cpus(replicas));
  const auto model = strategy.create<AffineModule>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{.momentum = 0.9});
  const optim::SchedulePtr rate = warm_cosine();
  optim::ExponentialMovingAverage ema({.decay = 0.8}, model.variables());
  const auto rows = input::from_tensor_slices(at::arange(21, at::kDouble).view({7, 3}).sin());
  Trained trained;
  std::int64_t step = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const auto& batch : strategy.distribute(rows.batch(3))) {
      sgd.set_learning_rate((*rate)(step));
      const auto norms = strategy.run(
          [&](ReplicaContext&, const at::Tensor& x) {
            Gradients gradients =
                sgd.aggregate(sgd.compute_gradients((model(x) - 4).square().sum(1).mean()));
            const double norm = optim::clip_by_global_norm_(gradients, 0.5);
            sgd.apply_gradients(gradients);
            return norm;
          },
          batch);
      trained.norms.push_back(norms[0]);
      ema.update(step++);
    }
  }
  for (const auto& variable : model.variables()) {
    trained.weights.push_back(variable.read());
    trained.averages.push_back(ema.average(variable));
  }
  return trained;
}

TEST(ClippedTraining, OnAnyNumberOfReplicasEqualsOneReplicaOnTheGlobalBatch) {
  const Trained one = train(1);
  EXPECT_GT(one.norms.back(), 0.5) << "or nothing was clipped";
  EXPECT_FALSE(one.weights[0].allclose(one.averages[0], 1e-3));
  for (const int replicas : {2, 4}) {  // with four, one replica has no examples
    const Trained ours = train(replicas);
    for (std::size_t i = 0; i < one.norms.size(); ++i)
      EXPECT_NEAR(ours.norms[i], one.norms[i], 1e-10) << "step " << i;
    for (std::size_t i = 0; i < one.weights.size(); ++i) {
      EXPECT_TRUE(ours.weights[i].allclose(one.weights[i], 1e-10, 1e-14)) << i;
      EXPECT_TRUE(ours.averages[i].allclose(one.averages[i], 1e-10, 1e-14)) << i;
    }
  }
}

TEST(AveragedWeights, AreUsedByReplicasAndRestoredAfterwards) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<AffineModule>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  optim::ExponentialMovingAverage ema({.decay = 0.5}, model.variables());
  const auto step = [&] {
    strategy.run([&](ReplicaContext&) {
      sgd.minimize(model(at::ones({1, 3}, at::kDouble)).square().sum(1));
    });
  };
  const auto weights_seen = [&] {
    return strategy.run([&](ReplicaContext&) { return model->weight.detach().clone(); });
  };
  step();
  ema.update();
  const auto trained = weights_seen();
  {
    const optim::AveragedWeights averaged(ema);
    const auto seen = weights_seen();
    for (int replica = 0; replica < 2; ++replica) {
      EXPECT_TRUE(seen[replica].equal(ema.average(model.variables()[0])));
      EXPECT_FALSE(seen[replica].equal(trained[replica]));
    }
  }
  for (int replica = 0; replica < 2; ++replica)
    EXPECT_TRUE(weights_seen()[replica].equal(trained[replica]));
  step();  // the optimizer does not take it for a change by other code
}

}  // namespace
}  // namespace brigade::parity
