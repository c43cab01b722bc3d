// Eight learning rates of a model, one after another on one device against two at a time on two
// devices of the same process, in pairs. Prints one JSON line: the time of the first over that of
// the second.
#include <ATen/Parallel.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/pairs.h"
#include "brigade/distribute/strategies/independent_strategy.h"
#include "brigade/layers/losses.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/optim/sgd.h"

namespace brigade::benchmarks {
namespace {

constexpr int kTrials = 8;

/// Trains eight models for some steps each.
class Loop {
 public:
  explicit Loop(std::vector<std::string> devices) : independent_(options(std::move(devices))) {}

  void run(int steps) {
    const auto results = independent_.run(kTrials, [&](distribute::Trial& trial) {
      auto& strategy = trial.strategy();
      const auto model = strategy.create<models::MnistCnn>();
      const auto sgd =
          strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1 / (1 << trial.index())});
      for (int step = 0; step < steps; ++step) {
        strategy.run([&](distribute::ReplicaContext&) {
          sgd.minimize(layers::losses::sparse_softmax_cross_entropy(model(images_), labels_),
                       distribute::LossScale::kAlreadyScaled);
        });
      }
    });
    for (const distribute::TrialResult& each : results)
      if (each.error) std::rethrow_exception(each.error);
  }

 private:
  // Assigned, because g++ 12 takes the other members of a designated initializer for uninitialized.
  static distribute::IndependentOptions options(std::vector<std::string> devices) {
    distribute::IndependentOptions options;
    options.devices = std::move(devices);
    return options;
  }

  distribute::IndependentStrategy independent_;
  const at::Tensor images_ = at::rand({64, 1, 28, 28});
  const at::Tensor labels_ = at::randint(0, 10, {64}, at::kLong);
};

void measure(const PairOptions& options) {
  at::set_num_threads(1);
  const auto one = [] { return std::make_unique<Loop>(std::vector<std::string>{"cpu:0"}); };
  const auto two = [] {
    return std::make_unique<Loop>(std::vector<std::string>{"cpu:0", "cpu:1"});
  };
  const Ratios ratios = compare(one, two, options);
  std::cout << "{\"pairs\": " << ratios.wall.size() << ratio_fields(ratios) << "}" << std::endl;
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  using namespace brigade::benchmarks;
  PairOptions options{.pairs = 6, .steps = 5};
  CLI::App app("Eight learning rates: one device against two");
  app.add_option("--pairs", options.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "steps of each model")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return run_reporting("independent_pairs", [&] { measure(options); });
}
