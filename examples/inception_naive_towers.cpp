// Inception v3 on several devices, the naive way of the Slim tutorial: a loop over the devices that
// takes a batch for each of them. It trains, but two things in it are not what they seem, which
// this program shows: the data lasts for half the steps, and a total loss without a scope adds the
// losses of earlier towers. example_inception_sliced_towers does it right.
//
//   example_inception_naive_towers [IMAGES]
#include <brigade/brigade.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace bg = brigade;
namespace slim = bg::slim;

namespace {

using Batch = bg::LabeledBatch;

constexpr std::int64_t kBatchSize = 8;
constexpr std::int64_t kNumClasses = 10;
constexpr int kNumGpus = 2;

/// Fashion-MNIST in color, as large as Inception needs without its auxiliary classifier.
bg::LabeledExample enlarge(bg::LabeledExample example) {
  example.features = bg::resize_images(example.features, {75, 75}).expand({3, -1, -1});
  return example;
}

/// The loss of a batch, added to those of the open graph; a tenth of the original's channels.
void add_losses(const Batch& batch) {
  const auto defaults = slim::arg_scope(bg::models::inception_v3_arg_scope());
  const auto net = bg::models::inception_v3(batch.features, {.num_classes = kNumClasses,
                                                             .min_depth = 4,
                                                             .depth_multiplier = 0.1,
                                                             .create_aux_logits = false});
  slim::losses::softmax_cross_entropy(net.output, bg::one_hot(batch.labels, kNumClasses));
}

/// In this library each tower's pass has a graph of its own, so this is the tower's own loss.
at::Tensor total_loss(const bg::InputFunction<Batch>& input_fn) {
  add_losses(input_fn());
  return slim::losses::get_total_loss();
}

/// The tutorial's towers are in one graph. Here are two in one, to see what each of them minimizes.
void show_total_losses_in_one_graph(const Batch& batch) {
  const at::NoGradGuard no_grad;
  bg::Graph graph;
  const auto opened = graph.as_default();
  for (int gpu_id = 0; gpu_id < kNumGpus; ++gpu_id) {
    const auto scope = bg::variable_scope(bg::get_variable_scope(),
                                          {.reuse = gpu_id > 0 ? bg::Reuse::kYes : bg::Reuse::kNo});
    const auto name = bg::name_scope("tower_" + std::to_string(gpu_id));
    add_losses(batch);
    const double unscoped = slim::losses::get_total_loss().item<double>();
    const double scoped =
        slim::losses::get_total_loss({.scope = graph.name_scope()}).item<double>();
    std::cout << "Tower " << gpu_id << ": total loss " << scoped << ", without a scope " << unscoped
              << "\n";
    bg::check_state(gpu_id == 0 ? unscoped == scoped : unscoped > 1.5 * scoped,
                    "The second tower's unscoped loss should contain the first one's.");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    at::set_num_threads(1);  // of this thread: the cores are the towers'
    const std::int64_t images = argc > 1 ? std::atoll(argv[1]) : 60'000;
    const std::int64_t steps_per_epoch = images / kBatchSize;
    const auto dataset = bg::fashion_mnist()
                             .take(images)
                             .shuffle(1000)
                             .map(enlarge, {.parallelism = bg::kAutotune})
                             .batch(kBatchSize);
    auto iterator = dataset.iterator();
    show_total_losses_in_one_graph(*dataset.iterator().next());

    bg::TowerOptions options{.input = bg::TowerInput::kBatchEach};
    for (int gpu_id = 0; gpu_id < kNumGpus; ++gpu_id)
      options.devices.push_back("/cpu:" + std::to_string(gpu_id));
    auto towers = bg::create_parallel_optimization<Batch>(
        total_loss, [&] { return iterator.next(); }, bg::optim::Adam{.learning_rate = 1e-3},
        options);
    std::int64_t steps = 0;
    double first = 0, last = 0;
    for (; steps < steps_per_epoch; ++steps) {  // as the tutorial's loop counts
      const auto loss = towers.update();
      if (!loss) break;  // in the tutorial: OutOfRangeError, and nothing is saved
      last = loss->item<double>();
      if (steps == 0) first = last;
    }
    std::cout << "The data was used up after " << steps << " of " << steps_per_epoch
              << " steps; loss " << first << " to " << last << "\n";
    bg::check_state(steps == steps_per_epoch / kNumGpus, "Each step takes a batch for each tower.");
    bg::check_state(std::isfinite(last), "The loss is not a number.");
  });
}
