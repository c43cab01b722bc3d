// The MNIST CNN in stages on devices of which each is a core, with the cut that the pipeline
// chooses: in pairs of blocks of steps over MirroredStrategy on the same devices with the same
// global batch, or how far its steps are from the predicted one. Prints one JSON line.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/pairs.h"
#include "benchmarks/strategy_loop.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/distribute/strategies/pipeline_strategy.h"

namespace brigade::benchmarks {
namespace {

constexpr int kProfileSteps = 5;

struct Options {
  std::string comparison = "mirrored";
  std::string schedule = "1f1b";
  std::vector<std::string> cut = {};  // empty: chosen
  int devices = 2;
  int micro_batches = 8;
  std::int64_t batch = 256;
  PairOptions pairs = {.pairs = 30, .steps = 5};
};

std::vector<std::string> device_names(const Options& o) {
  std::vector<std::string> names;
  for (int i = 0; i < o.devices; ++i) names.push_back("cpu:" + std::to_string(i));
  return names;
}

std::unique_ptr<distribute::Strategy> make_pipeline(const Options& o) {
  distribute::PipelineStrategyOptions options;
  options.devices = device_names(o);
  options.cut = distribute::AutomaticCut{.profile_steps = kProfileSteps};
  if (!o.cut.empty()) options.cut = o.cut;
  options.micro_batches = o.micro_batches;
  options.schedule = o.schedule == "gpipe" ? distribute::PipelineSchedule::kGPipe
                                           : distribute::PipelineSchedule::k1F1B;
  return std::make_unique<distribute::PipelineStrategy>(options);
}

/// Steps of the pipeline, of which those that measure layers have been made.
class Loop {
 public:
  explicit Loop(const Options& o)
      : loop_(Workload::kMnistCnn, make_pipeline(o), o.batch / o.micro_batches) {
    loop_.run(kProfileSteps);
  }

  void run(int steps) { loop_.run(steps); }
  const distribute::PipelineStrategy& pipeline() const {
    return dynamic_cast<const distribute::PipelineStrategy&>(loop_.strategy());
  }

 private:
  StrategyLoop loop_;
};

/// `, "cut": "conv2", ...`: of a pipeline that was built last.
std::string fields_of(const distribute::PipelineStrategy& pipeline) {
  std::string text = base::str_cat(", \"cut\": \"", base::join(pipeline.cut(), " "), "\"");
  const auto& chosen = pipeline.chosen_cut();
  if (!chosen) return text;
  std::vector<double> milliseconds;
  for (const distribute::StageCost& stage : chosen->stages)
    milliseconds.push_back(1e3 * stage.seconds());
  std::vector<std::string> layers;
  for (const distribute::LayerCost& each : chosen->layer_costs)
    layers.push_back(base::str_cat("\"", each.name, "\": [", 1e3 * each.forward_seconds, ", ",
                                   1e3 * each.backward_seconds, "]"));
  return base::str_cat(text, ", \"layer_milliseconds\": {", base::join(layers, ", "),
                       "}, \"stage_milliseconds\": [", base::join(milliseconds, ", "),
                       "], \"predicted_milliseconds\": ", 1e3 * chosen->step_seconds);
}

Ratios compare_with_mirrored(const Options& o, std::string& fields) {
  const auto pipeline = [&] {
    auto loop = std::make_unique<Loop>(o);
    fields = fields_of(loop->pipeline());
    return loop;
  };
  const auto mirrored = [&] {
    return std::make_unique<StrategyLoop>(
        Workload::kMnistCnn,
        std::make_unique<distribute::MirroredStrategy>(
            distribute::MirroredOptions{.devices = device_names(o)}),
        o.batch / o.devices);
  };
  return compare(pipeline, mirrored, o.pairs);
}

/// By what fraction steps differ from the predicted one, over several builds.
Ratios compare_with_prediction(const Options& o, std::string& fields) {
  constexpr int kBlocksABuild = 5;
  Ratios ratios;
  for (int block = 0; block < o.pairs.pairs;) {
    Loop loop(o);
    fields = fields_of(loop.pipeline());
    const double predicted = loop.pipeline().chosen_cut()->step_seconds * o.pairs.steps;
    loop.run(o.pairs.steps);
    for (int i = 0; i < kBlocksABuild && block < o.pairs.pairs; ++i, ++block) {
      const Cost cost = cost_of_block(loop, o.pairs.steps);
      ratios.wall.push_back(std::abs(cost.wall_seconds / predicted - 1.0));
      ratios.cpu.push_back(cost.cpu_seconds / predicted);
    }
  }
  return ratios;
}

void measure(const Options& options) {
  at::set_num_threads(1);
  std::string fields;
  const Ratios ratios = options.comparison == "mirrored" ? compare_with_mirrored(options, fields)
                                                         : compare_with_prediction(options, fields);
  std::cout << "{\"comparison\": \"" << options.comparison
            << "\", \"micro_batches\": " << options.micro_batches << fields
            << ", \"pairs\": " << ratios.wall.size() << ratio_fields(ratios) << "}" << std::endl;
}

}  // namespace
}  // namespace brigade::benchmarks

int main(int argc, char** argv) {
  brigade::benchmarks::Options options;
  CLI::App app("Steps of a pipeline over those of MirroredStrategy, or over the predicted one");
  app.add_option("--comparison", options.comparison,
                 "mirrored: the pipeline's time over MirroredStrategy's. predicted: by what "
                 "fraction its steps differ from the predicted one")
      ->check(CLI::IsMember({"mirrored", "predicted"}));
  app.add_option("--schedule", options.schedule)->check(CLI::IsMember({"1f1b", "gpipe"}));
  app.add_option("--cut", options.cut, "layers (mirrored); default: the pipeline chooses")
      ->delimiter(',');
  app.add_option("--devices", options.devices)->check(CLI::PositiveNumber);
  app.add_option("--micro-batches", options.micro_batches)->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "examples a step")->check(CLI::PositiveNumber);
  app.add_option("--pairs", options.pairs.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.pairs.steps, "steps a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("pipeline_pairs",
                                            [&] { brigade::benchmarks::measure(options); });
}
