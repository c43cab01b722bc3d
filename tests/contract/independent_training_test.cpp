// Models that an IndependentStrategy trains at the same time equal, bit for bit, those that are
// trained alone.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "brigade/checkpoint/weights_hash.h"
#include "brigade/distribute/strategies/independent_strategy.h"
#include "brigade/input/synthetic.h"
#include "brigade/layers/losses.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

using Examples = data::Dataset<input::LabeledExample>;

constexpr std::uint64_t kTrialSeed = 11;
const std::vector<double> kRates = {0.1, 0.02, 0.003};

/// 48 examples, shuffled, with noise that is drawn when one is read; counts the examples read.
struct Input {
  std::shared_ptr<std::atomic<int>> made = std::make_shared<std::atomic<int>>(0);
  Examples examples = input::synthetic(48, {1, 28, 28}, 10, 3)
                          .shuffle(20)
                          .map([made = made](input::LabeledExample example) {
                            ++*made;
                            return example;
                          });
};

template <class Model>
std::string weights_of(const Model& model) {
  std::vector<checkpoint::NamedTensor> weights;
  for (const variables::Variable& each : model.variables())
    weights.push_back({.name = each.name(), .tensor = each.read()});
  return checkpoint::weights_sha256(weights);
}

/// Two epochs. Returns the hash of the weights.
template <class Model, class Options, class Rule>
std::string train(Strategy& strategy, const Examples& examples, const Options& options,
                  const Rule& rule) {
  const auto model = strategy.create<Model>(options);
  const auto optimizer = strategy.optimizer(model, rule);
  const auto step = [&](const input::LabeledBatch& batch) {
    optimizer.minimize(
        layers::losses::sparse_softmax_cross_entropy(model(batch.features), batch.labels));
  };
  for (const auto& batch : strategy.distribute(examples.repeat(2).batch(16).prefetch(2)))
    strategy.run(step, batch);
  return weights_of(model);
}

std::string train_mlp(Strategy& strategy, const Examples& examples, int trial) {
  return train<models::Mlp>(strategy, examples, models::MlpOptions{},
                            optim::Sgd{.learning_rate = kRates[static_cast<std::size_t>(trial)]});
}

std::string train_cnn_with_dropout(Strategy& strategy, const Examples& examples, int trial) {
  return train<models::MnistCnn>(
      strategy, examples, models::MnistCnnOptions{.dropout = 0.4},
      optim::Adam{.learning_rate = kRates[static_cast<std::size_t>(trial)]});
}

using Train = std::string (*)(Strategy&, const Examples&, int);
class IndependentTraining : public ::testing::TestWithParam<Train> {};

TEST_P(IndependentTraining, GivesTheBitsOfATrainingAlone) {
  const int trials = static_cast<int>(kRates.size());
  std::vector<std::string> alone;
  for (int trial = 0; trial < trials; ++trial) {
    OneDeviceStrategy strategy({.device = "cpu:0", .seed = kTrialSeed});
    alone.push_back(GetParam()(strategy, Input().examples, trial));
  }
  EXPECT_NE(alone[0], alone[1]);
  for (const int devices : {3, 2}) {  // with two, the last trial waits
    for (const bool is_shared : {false, true}) {
      SCOPED_TRACE(::testing::Message() << devices << " devices, shared: " << is_shared);
      const Input input;
      IndependentOptions options{
          .allow_oversubscription = true, .seed = kTrialSeed, .max_ahead = 4};
      for (int device = 0; device < devices; ++device)
        options.devices.push_back("cpu:" + std::to_string(device));
      IndependentStrategy independent(options);
      std::vector<std::string> weights(kRates.size());
      const auto results = independent.run(trials, [&](Trial& trial) {
        const Examples examples = is_shared ? trial.dataset(input.examples) : input.examples;
        weights[static_cast<std::size_t>(trial.index())] =
            GetParam()(trial.strategy(), examples, trial.index());
      });
      for (const TrialResult& each : results) EXPECT_EQ(each.reason, "");
      EXPECT_EQ(weights, alone);
      const int passes = is_shared ? (devices == 3 ? 1 : 2) : 3;
      EXPECT_EQ(*input.made, passes * 2 * 48);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, IndependentTraining,
                         ::testing::Values(&train_mlp, &train_cnn_with_dropout),
                         [](const auto& test) {
                           return test.index == 0 ? "Mlp" : "CnnWithDropout";
                         });

}  // namespace
}  // namespace brigade::distribute
