// The MNIST CNN in stages on devices of which each is a core, with the cut that the pipeline
// chooses: in pairs of blocks of steps over MirroredStrategy on the same devices with the same
// global batch, or how far its steps are from the predicted one. Or equal stages: how far the time
// in which they wait, as measured, is from that of the schedule. Prints one JSON line.
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/pairs.h"
#include "benchmarks/strategy_loop.h"
#include "brigade/base/strings.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/distribute/strategies/pipeline_strategy.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/optim/sgd.h"

namespace brigade::benchmarks {
namespace {

constexpr int kProfileSteps = 5;

struct Options {
  std::string comparison = "mirrored";
  std::string schedule = "1f1b";
  std::vector<std::string> cut = {};  // empty: chosen
  int devices = 2;
  int micro_batches = 8;
  std::int64_t batch = 1024;
  std::string weight_gradients = "idle";
  bool timeline = false;
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
  options.weight_gradients = o.weight_gradients == "idle"
                                 ? distribute::WeightGradients::kWhenIdle
                                 : distribute::WeightGradients::kInBackward;
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
                                   1e3 * each.backward_seconds, ", ",
                                   1e3 * each.weight_gradient_seconds, "]"));
  return base::str_cat(text, ", \"layer_milliseconds\": {", base::join(layers, ", "),
                       "}, \"stage_milliseconds\": [", base::join(milliseconds, ", "),
                       "], \"predicted_milliseconds\": ", 1e3 * chosen->step_seconds);
}

/// What the stages did in the last step, for whoever looks for what a step waits for.
void show_timeline(const distribute::PipelineStrategy& pipeline) {
  const concurrency::StageTimeline timeline = pipeline.timeline();
  std::cerr << timeline.text(120);
  for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
    std::map<std::string_view, double> milliseconds;
    for (const concurrency::StageSpan& span : timeline.stages[stage]) {
      milliseconds[to_string(span.work)] +=
          std::chrono::duration<double, std::milli>(span.end - span.begin).count();
    }
    std::cerr << "stage " << stage;
    for (const auto& [work, each] : milliseconds) std::cerr << "  " << work << " " << each << " ms";
    std::cerr << "\n";
  }
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
    if (o.timeline) show_timeline(loop.pipeline());
    for (int i = 0; i < kBlocksABuild && block < o.pairs.pairs; ++i, ++block) {
      const Cost cost = cost_of_block(loop, o.pairs.steps);
      ratios.wall.push_back(std::abs(cost.wall_seconds / predicted - 1.0));
      ratios.cpu.push_back(cost.cpu_seconds / predicted);
    }
  }
  return ratios;
}

/// Equal layers, as many in each stage: what a stage waits for the others is the schedule's alone.
/// They keep the scale of activations and gradients.
struct EqualLayers : torch::nn::Module {
  static constexpr int kLayersAStage = 24;
  static constexpr std::int64_t kWidth = 512;

  explicit EqualLayers(int stages) {
    for (int i = 0; i < stages * kLayersAStage; ++i) {
      auto layer = register_module(name_of(i), torch::nn::Linear(kWidth, kWidth));
      torch::nn::init::normal_(layer->weight, 0.0, 1.0 / std::sqrt(double{kWidth}));
      layers.push_back(std::move(layer));
    }
  }
  static std::string name_of(int layer) { return base::str_cat("layer", layer); }
  static std::vector<std::string> cut(int stages) {
    std::vector<std::string> names;
    for (int stage = 1; stage < stages; ++stage) names.push_back(name_of(stage * kLayersAStage));
    return names;
  }
  at::Tensor forward(const at::Tensor& features) {
    at::Tensor x = features;
    for (std::size_t i = 0; i < layers.size(); ++i)
      x = layers[i](comm::begin_layer(name_of(static_cast<int>(i)), x));
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};

/// The part of the stages' time in which they make no passes, between the first and the last. Sums
/// of gradients are made meanwhile, which the theory does not have.
double bubble_of_passes(concurrency::StageTimeline timeline) {
  for (auto& spans : timeline.stages)
    std::erase_if(spans,
                  [](const auto& span) { return span.work == concurrency::StageWork::kSum; });
  return timeline.bubble();
}

/// The absolute difference from (p - 1) / (m + p - 1), of each step.
Ratios compare_bubbles(const Options& o, std::string& fields) {
  Options equal = o;
  equal.cut = EqualLayers::cut(o.devices);
  equal.weight_gradients = "backward";  // as the schedule's theory has it
  const auto strategy = make_pipeline(equal);
  const auto& pipeline = dynamic_cast<const distribute::PipelineStrategy&>(*strategy);
  const auto model = strategy->create<EqualLayers>(o.devices);
  const auto sgd = strategy->optimizer(model, optim::Sgd{.learning_rate = 1e-6});
  const at::Tensor features = at::randn({o.batch, EqualLayers::kWidth});
  const at::Tensor labels = at::zeros({o.batch}, at::kLong);
  const auto batch =
      *strategy->distribute(input::from_tensor_slices(features, labels).batch(o.batch)).begin();
  const auto step = [&] {
    strategy->run(
        [&](const input::LabeledBatch& local) {
          // The first layer, too, shall compute the gradient of its input.
          sgd.minimize(model(local.features.detach().requires_grad_()).square().mean());
        },
        batch);
    return bubble_of_passes(pipeline.timeline());
  };
  const double theory = (o.devices - 1.0) / (o.micro_batches + o.devices - 1.0);
  fields = base::str_cat(", \"theory\": ", theory);
  Ratios ratios;
  for (int i = 0; i < kProfileSteps; ++i) step();
  for (int i = 0; i < o.pairs.pairs * o.pairs.steps; ++i) {
    const double bubble = step();
    ratios.wall.push_back(std::abs(bubble - theory));
    ratios.cpu.push_back(bubble);
  }
  if (o.timeline) show_timeline(pipeline);
  return ratios;
}

Ratios compare_as_asked(const Options& options, std::string& fields) {
  if (options.comparison == "mirrored") return compare_with_mirrored(options, fields);
  if (options.comparison == "predicted") return compare_with_prediction(options, fields);
  return compare_bubbles(options, fields);
}

void measure(const Options& options) {
  at::set_num_threads(1);
  std::string fields;
  const Ratios ratios = compare_as_asked(options, fields);
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
                 "fraction its steps differ from the predicted one. bubble: by how much the "
                 "part of a step in which equal stages wait differs from the schedule's; cpu_ "
                 "are then the measured parts")
      ->check(CLI::IsMember({"mirrored", "predicted", "bubble"}));
  app.add_option("--schedule", options.schedule)->check(CLI::IsMember({"1f1b", "gpipe"}));
  app.add_option("--weight-gradients", options.weight_gradients,
                 "when they are computed; backward with --comparison bubble")
      ->check(CLI::IsMember({"idle", "backward"}));
  app.add_option("--cut", options.cut, "layers (mirrored); default: the pipeline chooses")
      ->delimiter(',');
  app.add_option("--devices", options.devices)->check(CLI::PositiveNumber);
  app.add_option("--micro-batches", options.micro_batches)->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "examples a step")->check(CLI::PositiveNumber);
  app.add_flag("--timeline", options.timeline,
               "shows who computed what when in a step (predicted, bubble)");
  app.add_option("--pairs", options.pairs.pairs)->check(CLI::PositiveNumber);
  app.add_option("--steps", options.pairs.steps, "steps a block")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return brigade::benchmarks::run_reporting("pipeline_pairs",
                                            [&] { brigade::benchmarks::measure(options); });
}
