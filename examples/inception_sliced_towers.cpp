// Inception v3 on several devices, the right way of the Slim tutorial, written out: the variables
// are on the controller, once; a batch is read once a step and cut into slices; each tower computes
// the gradients of its slice, and their average updates the variables.
//
//   example_inception_sliced_towers [IMAGES [TOWERS [FOLDER]]]
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace bg = brigade;
namespace slim = bg::slim;

namespace {

using Batch = bg::LabeledBatch;

constexpr std::int64_t kBatchSize = 16;
constexpr std::int64_t kNumClasses = 10;
constexpr int kNumEpochs = 2;

/// Fashion-MNIST in color, as large as Inception needs without its auxiliary classifier.
bg::LabeledExample enlarge(bg::LabeledExample example) {
  example.features = bg::resize_images(example.features, {75, 75}).expand({3, -1, -1});
  return example;
}

/// The total loss of a tower. Each tower's pass has a graph, in which there are only its losses;
/// the regularization is in each tower's, so the average of the towers has it once.
at::Tensor total_loss(const at::Tensor& images, const at::Tensor& labels) {
  const auto defaults = slim::arg_scope(bg::models::inception_v3_arg_scope());
  const auto net = bg::models::inception_v3(images, {.num_classes = kNumClasses,
                                                     .min_depth = 4,
                                                     .depth_multiplier = 0.1,
                                                     .create_aux_logits = false});
  slim::losses::softmax_cross_entropy(net.output, bg::one_hot(labels, kNumClasses));
  return slim::losses::get_total_loss();
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    at::set_num_threads(1);  // of this thread: the cores are the towers'
    const std::int64_t images = argc > 1 ? std::atoll(argv[1]) : 60'000;
    const int num_gpus = argc > 2 ? std::atoi(argv[2]) : 2;
    const std::string folder = argc > 3 ? argv[3] : "model/inception_multi_gpu";
    const auto dataset = bg::fashion_mnist()
                             .take(images)
                             .map(enlarge, {.parallelism = bg::kAutotune})
                             .shuffle(1000)
                             .batch(kBatchSize)
                             .prefetch(bg::kAutotune);

    std::vector<std::string> gpus;
    for (int gpu_id = 0; gpu_id < num_gpus; ++gpu_id)
      gpus.push_back("/cpu:" + std::to_string(gpu_id));  // "/gpu:", if you have them
    bg::CentralStorageStrategy towers({.compute_devices = gpus, .parameter_device = "/cpu:0"});
    // This call makes the variables; the towers' passes reuse them.
    const auto model =
        towers.create(total_loss, at::zeros({2, 3, 75, 75}), at::zeros({2}, at::kLong));
    const auto adam = towers.optimizer(model, bg::optim::Adam{.learning_rate = 1e-2});

    auto iterator = dataset.iterator();
    double first = 0, mean = 0;
    for (int epoch = 0; epoch < kNumEpochs; ++epoch, iterator.start_next_epoch()) {
      double sum = 0;
      int steps = 0;
      for (; const auto batch = iterator.next(); ++steps) {
        std::vector<at::Tensor> losses(gpus.size());
        const auto tower_grads = towers.run(
            [&](bg::ReplicaContext& tower, const Batch& slice) {
              const auto name = bg::name_scope("tower_" + std::to_string(tower.replica_id()));
              const at::Tensor loss = model(slice.features, slice.labels);
              losses[static_cast<std::size_t>(tower.replica_id())] = loss.detach();
              return adam.compute_gradients(loss, bg::LossScale::kAlreadyScaled);
            },
            towers.split_batch(*batch));
        adam.apply_gradients(bg::average_gradients(tower_grads));
        for (const at::Tensor& loss : losses) sum += loss.item<double>() / num_gpus;
      }
      mean = sum / steps;
      if (epoch == 0) first = mean;
      std::cout << "Epoch " << epoch << ", Loss: " << mean << std::endl;
    }

    bg::check_state(adam.updates() == kNumEpochs * (images / kBatchSize),
                    "Every batch must make one update.");
    bg::check_state(mean < 0.95 * first, "The loss did not fall.");
    for (const bg::Variable& variable : model.variables()) {
      bg::check_state(variable.name().starts_with("InceptionV3/"),
                      variable.name() + " is a tower's own.");
      bg::check_state(
          !variable.name().ends_with("moving_mean") || variable.read().any().item<bool>(),
          variable.name() + " was not updated.");
    }
    bg::checkpoint::Saver saver({.directory = folder});
    saver.save(adam.updates(), {.variables = model.variables()});
    saver.close();
  });
}
