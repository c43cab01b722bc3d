// Separate models at the same time: eight learning rates on two devices of one process. Every
// example is made once for the two models that are trained at the same time; bad models end early.
// The best model of the sweep is then trained alone, and must have the same weights, bit for bit.
#include <brigade/brigade.h>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>

namespace bg = brigade;

namespace {

const std::vector<double> kRates = {1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003};
constexpr int kEpochs = 4;

using Examples = bg::Dataset<bg::LabeledExample>;
using AfterEpoch = std::function<bool(int epoch, double loss)>;

// Trains a model and returns its weights. `after_epoch` says whether to continue.
std::vector<at::Tensor> train(bg::Strategy& strategy, const Examples& examples, double rate,
                              const AfterEpoch& after_epoch) {
  const auto model = strategy.create<bg::models::Mlp>();
  const auto sgd = strategy.optimizer(model, bg::optim::Sgd{.learning_rate = rate});
  const auto step = [&](const bg::LabeledBatch& batch) {
    const auto loss = bg::losses::sparse_softmax_cross_entropy(model(batch.features), batch.labels);
    return sgd.minimize(loss);
  };
  const auto batches = strategy.distribute(examples.batch(32).prefetch(2));
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    double sum = 0.0;
    int steps = 0;
    for (const auto& batch : batches) {  // each loop is the next epoch
      sum += strategy.reduce_loss(strategy.run(step, batch)).item<double>();
      ++steps;
    }
    if (!after_epoch(epoch, sum / steps)) break;
  }
  std::vector<at::Tensor> weights;
  for (const auto& variable : model.variables()) weights.push_back(variable.read().clone());
  return weights;
}

bool is_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

int run() {
  const Examples examples = bg::synthetic(512, {1, 28, 28}, 10).shuffle(512);
  bg::IndependentStrategy independent(
      {.devices = {"cpu:0", "cpu:1"},
       .allow_oversubscription = true,  // for machines with one core
       .stopping = bg::MedianStopping{.metric = "loss", .grace_epochs = 1}});

  std::vector<std::vector<at::Tensor>> weights(kRates.size());
  const auto results = independent.run(static_cast<int>(kRates.size()), [&](bg::Trial& trial) {
    const auto index = static_cast<std::size_t>(trial.index());
    const auto after_epoch = [&](int epoch, double loss) {
      trial.report(epoch, {{"loss", loss}});
      return !trial.should_stop();
    };
    weights[index] = train(trial.strategy(), trial.dataset(examples), kRates[index], after_epoch);
  });

  std::vector<std::string> labels;
  for (const double rate : kRates) labels.push_back("learning_rate=" + std::to_string(rate));
  std::cout << bg::trial_table(results, labels);
  const auto cost = [](const bg::TrialResult& trial) {
    const double loss = trial.metrics.at("loss");
    const bool counts = trial.status == bg::TrialStatus::kCompleted && std::isfinite(loss);
    return counts ? loss : std::numeric_limits<double>::max();
  };
  const auto is_better = [&](const bg::TrialResult& a, const bg::TrialResult& b) {
    return cost(a) < cost(b);
  };
  const bg::TrialResult best = *std::min_element(results.begin(), results.end(), is_better);
  std::cout << "best: " << labels[static_cast<std::size_t>(best.index)] << "\n";

  const auto index = static_cast<std::size_t>(best.index);
  bg::OneDeviceStrategy alone("cpu:0");
  const auto again = train(alone, examples, kRates[index], [](int, double) { return true; });
  if (best.status != bg::TrialStatus::kCompleted || !is_equal(again, weights[index])) {
    std::cerr << "the model that was trained alone differs from that of the sweep\n";
    return 1;
  }
  std::cout << "trained alone, it has the same weights\n";
  return 0;
}

}  // namespace

int main() {
  return bg::run_main(run);
}
