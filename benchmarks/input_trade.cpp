// What threads that load cost those that train: two replicas, each on its own core, learn from
// images that are decoded meanwhile, by different numbers of threads in alternation. Prints one
// JSON line for each: the examples per second, and how a step spent its time.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/measure.h"
#include "benchmarks/strategy_loop.h"
#include "brigade/input/image_folder.h"
#include "brigade/layers/losses.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/optim/adam.h"

namespace brigade::benchmarks {
namespace {

constexpr int kReplicas = 2;
constexpr std::int64_t kBatch = 64;  // of a replica
/// So few that what is prefetched while others run is used up before the next block.
constexpr std::int64_t kPrefetch = 2;

struct Setting {
  std::string name;
  std::int64_t threads = data::kAutotune;
  data::Tuning tuning{};
};

std::vector<Setting> settings() {
  const auto cores = static_cast<std::int64_t>(data::usable_cores());
  return {{.name = "auto, what the replicas leave"},
          {.name = "auto, all cores", .tuning = {.cpu_budget = static_cast<double>(cores)}},
          {.name = "1 thread", .threads = 1},
          {.name = "1 thread a core", .threads = std::max<std::int64_t>(cores, 2)},
          {.name = "4 threads a core", .threads = 4 * cores}};
}

/// Where the images are, and how they are decoded: scaled is a small part of a step's work, exact
/// as much as the training itself.
struct ImageSource {
  std::filesystem::path directory;
  input::JpegDecoding decoding = input::JpegDecoding::kScaled;
};

/// Batches for all replicas: gray, 28 x 28, of images of 500 x 375.
data::Dataset<input::LabeledBatch> batches(const ImageSource& source, const Setting& setting) {
  const input::ImageFolderOptions options{.color_mode = input::ColorMode::kGrayscale,
                                          .batch_size = kReplicas * kBatch,
                                          .image_size = {28, 28},
                                          .jpeg_decoding = source.decoding,
                                          .parallelism = setting.threads};
  return input::image_dataset_from_directory(source.directory / "jpeg", options)
      .dataset.repeat()
      .map([](input::LabeledBatch batch) {
        return input::LabeledBatch{batch.features / 255, batch.labels};
      })
      .prefetch(kPrefetch)
      .with_options({.tuning = setting.tuning});
}

class Training {
 public:
  Training(const ImageSource& source, const Setting& setting)
      : strategy_(make_strategy("mirrored", kReplicas)),
        model_(strategy_->create<models::MnistCnn>()),
        optimizer_(strategy_->optimizer(model_, optim::Adam{.learning_rate = 1e-3})),
        input_(strategy_->distribute(batches(source, setting)).iterator()) {
    strategy_->measure_steps(distribute::StepMeasuring::kOn);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }
  /// A block of so many steps, after as many that are not timed: while others ran, the threads
  /// filled the buffers.
  void measure(int steps) {
    run(steps);
    strategy_->reset_step_times();
    const double seconds = cost_of_block(*this, steps).wall_seconds;
    rates_.push_back(static_cast<double>(steps * kReplicas * kBatch) / seconds);
    for (std::size_t phase = 0; phase < fractions_.size(); ++phase) {
      double fraction = 0;
      for (const auto& replica : strategy_->step_times()) {
        fraction += replica.fraction(comm::kStepPhases[phase]) / kReplicas;
      }
      fractions_[phase].push_back(fraction);
    }
  }
  void print(const std::string& name) const {
    const auto rate = estimate(rates_);
    std::cout << "{\"threads\": \"" << name << "\", \"examples_per_second\": " << rate.median
              << ", \"low\": " << rate.low << ", \"high\": " << rate.high;
    for (std::size_t phase = 0; phase < fractions_.size(); ++phase) {
      std::cout << ", \"" << comm::to_string(comm::kStepPhases[phase])
                << "\": " << estimate(fractions_[phase]).median;
    }
    std::cout << "}" << std::endl;
  }

 private:
  void step() {
    const auto batches = input_.next();
    strategy_->run(
        [&](distribute::ReplicaContext&, const input::LabeledBatch& batch) {
          const auto loss =
              layers::losses::sparse_softmax_cross_entropy(model_(batch.features), batch.labels);
          optimizer_.minimize(loss);
          return loss;
        },
        batches.value());
  }

  std::unique_ptr<distribute::Strategy> strategy_;
  distribute::Replicated<models::MnistCnn> model_;
  distribute::Optimizer optimizer_;
  distribute::DistributedIterator<input::LabeledBatch> input_;
  std::vector<double> rates_;
  comm::PerPhase<std::vector<double>> fractions_;
};

void compare(const ImageSource& source, int rounds, int steps) {
  at::set_num_threads(1);
  const auto all = settings();
  std::vector<std::unique_ptr<Training>> trainings;
  for (const Setting& setting : all) {
    trainings.push_back(std::make_unique<Training>(source, setting));
    trainings.back()->run(2 * steps);  // the tuner finds its settings
  }
  for (int round = 0; round < rounds; ++round) {
    for (const auto& training : trainings) training->measure(steps);
  }
  for (std::size_t i = 0; i < all.size(); ++i) trainings[i]->print(all[i].name);
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::benchmarks::ImageSource source{.directory = "."};
  bool is_exact = false;
  int rounds = 8, steps = 20;
  CLI::App app("Training during the decoding of its images, by the number of decoding threads");
  app.add_option("--directory", source.directory, "where `input_speed --make jpeg` wrote its files")
      ->check(CLI::ExistingDirectory);
  app.add_flag("--exact", is_exact, "decode every pixel, and not at an eighth of the size");
  app.add_option("--rounds", rounds, "blocks of each")->check(CLI::PositiveNumber);
  app.add_option("--steps", steps, "a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("input_trade", [&] {
    if (is_exact) source.decoding = brigade::input::JpegDecoding::kExact;
    brigade::benchmarks::compare(source, rounds, steps);
  });
}
