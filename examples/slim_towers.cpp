// Slim models on several devices: the tutorial's first, wrong version, whose towers share one
// iterator and use the data up N times as fast as its loop expects, and the right one, which cuts
// one batch for the towers.
//
//   example_slim_towers [FOLDER [EXAMPLES]]
#include <brigade/brigade.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>

namespace bg = brigade;
namespace slim = bg::slim;

namespace {

using Batch = bg::LabeledBatch;

constexpr std::int64_t kBatchSize = 64;
constexpr std::int64_t kEpochs = 2;
const bg::optim::Adam kAdam{.learning_rate = 1e-3};

void check(bool holds, const std::string& claim) {
  std::cout << (holds ? "  yes: " : "  NO:  ") << claim << "\n";
  if (!holds) std::exit(1);
}

at::Tensor build_model(const at::Tensor& images, std::int64_t num_classes) {
  at::Tensor net = slim::conv2d(images, 16, {3, 3}, {.scope = "conv1"});
  net = slim::max_pool2d(net, {2, 2}, {.scope = "pool1"});
  net = slim::flatten(net, {.scope = "flatten"});
  net = slim::fully_connected(net, 64, {.scope = "fc1"});
  return slim::fully_connected(net, num_classes, {.activation = nullptr, .scope = "fc2"});
}

/// A tower: the model with its regularization, and the tower's own losses.
at::Tensor total_loss(const bg::InputFunction<Batch>& input_fn) {
  const auto defaults = slim::arg_scope<slim::conv2d, slim::fully_connected>(
      {.weights_regularizer = slim::l2_regularizer(1e-4)});
  const Batch batch = input_fn();
  const at::Tensor logits = build_model(batch.features, 10);
  slim::losses::softmax_cross_entropy(logits, bg::one_hot(batch.labels, 10));
  const bg::Graph& graph = *bg::variables::current_graph();
  return slim::losses::get_total_loss({.scope = graph.name_scope()});
}

struct Run {
  std::int64_t steps = 0;
  double first = 0.0, last = 0.0;
};

/// What the tutorial's loop does: `epochs` times `steps_per_epoch` steps, if the data lasts.
Run train(bg::ParallelOptimization<Batch>& towers, std::int64_t steps_in_all) {
  Run run;
  for (; run.steps < steps_in_all; ++run.steps) {
    const auto loss = towers.update();
    if (!loss) break;
    if (run.steps == 0) run.first = loss->item<double>();
    run.last = loss->item<double>();
  }
  std::cout << "  " << run.steps << " of " << steps_in_all << " steps, loss " << run.first << " to "
            << run.last << "\n";
  return run;
}

bg::TowerOptions two_towers(bg::TowerInput input) {
  return {.devices = {"/cpu:0", "/cpu:1"}, .input = input};
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const std::string folder = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const std::int64_t examples = argc > 2 ? std::atoll(argv[2]) : 60'000;
    const auto dataset =
        bg::fashion_mnist(folder).take(examples).shuffle(10'000).repeat(kEpochs).batch(kBatchSize);
    const std::int64_t steps = (examples * kEpochs + kBatchSize - 1) / kBatchSize;

    std::cout << "Wrong: every tower takes its own batch, the loop counts as for one\n";
    auto iterator = dataset.iterator();
    auto naive = bg::create_parallel_optimization<Batch>(
        total_loss, [&] { return iterator.next(); }, kAdam, two_towers(bg::TowerInput::kBatchEach));
    const Run wrong = train(naive, steps);
    check(wrong.steps == (steps + 1) / 2, "the data runs out half way");

    std::cout << "Right: one batch per step, split among the towers\n";
    auto second_iterator = dataset.iterator();
    auto sliced = bg::create_parallel_optimization<Batch>(
        total_loss, [&] { return second_iterator.next(); }, kAdam,
        two_towers(bg::TowerInput::kSlices));
    const Run right = train(sliced, steps);
    check(right.steps == steps, "every step has its batch");
    check(right.last < right.first, "and the loss falls");
    check(sliced.global_step() == steps, "global_step counts updates");
    check(sliced.variables().front().name() == "conv1/weights", "the towers share conv1/weights");
  });
}
