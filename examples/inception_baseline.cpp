// Inception v3 with Slim on one device: the program before it uses several.
//
//   example_inception_baseline [IMAGES [FOLDER]]
#include <brigade/brigade.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

namespace bg = brigade;
namespace slim = bg::slim;

namespace {

constexpr std::int64_t kBatchSize = 16;
constexpr std::int64_t kNumClasses = 10;
constexpr int kNumEpochs = 2;

/// Fashion-MNIST in color, as large as the auxiliary classifier needs. (The original: 299.)
bg::LabeledExample enlarge(bg::LabeledExample example) {
  example.features = bg::resize_images(example.features, {107, 107}).expand({3, -1, -1});
  return example;
}

/// A tenth of the original's channels, so that it trains in seconds on a CPU.
bg::models::InceptionV3Result inception(const at::Tensor& images, bg::Mode mode) {
  const auto defaults =
      slim::arg_scope(bg::models::inception_v3_arg_scope({.batch_norm_decay = 0.9}));
  return bg::models::inception_v3(
      images, {.num_classes = kNumClasses, .mode = mode, .min_depth = 4, .depth_multiplier = 0.1});
}

/// The tutorial builds the auxiliary classifier, too, but gives it no loss.
at::Tensor total_loss(const bg::LabeledBatch& batch) {
  const auto net = inception(batch.features, bg::Mode::kTraining);
  const at::Tensor onehot_labels = bg::one_hot(batch.labels, kNumClasses);
  slim::losses::softmax_cross_entropy(net.output, onehot_labels);
  slim::losses::softmax_cross_entropy(net.end_points.at("AuxLogits"), onehot_labels,
                                      {.weights = 0.4});
  return slim::losses::get_total_loss();  // with the regularization
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const std::int64_t images = argc > 1 ? std::atoll(argv[1]) : 60'000;
    const std::string folder = argc > 2 ? argv[2] : "model/inception_single_gpu";
    const std::int64_t steps_per_epoch = images / kBatchSize;
    const auto dataset = bg::fashion_mnist()
                             .take(images)
                             .map(enlarge, {.parallelism = bg::kAutotune})
                             .shuffle(1000)
                             .repeat(kNumEpochs)
                             .batch(kBatchSize)
                             .prefetch(bg::kAutotune);

    bg::OneDeviceStrategy strategy;
    // It also makes the updates of batch norm's moving statistics, which `minimize` of TensorFlow
    // leaves out: its model trains well, and evaluates as if it had not.
    const auto train_op = slim::learning::create_train_op(strategy, total_loss, dataset,
                                                          bg::optim::Adam{.learning_rate = 1e-2});
    double first = 0, mean = 0;
    for (int epoch = 0; epoch < kNumEpochs; ++epoch) {
      double sum = 0;
      for (std::int64_t step = 0; step < steps_per_epoch; ++step) sum += train_op()->item<double>();
      mean = sum / static_cast<double>(steps_per_epoch);
      if (epoch == 0) first = mean;
      std::cout << "Epoch " << epoch << ", Loss: " << mean << std::endl;
    }
    bg::check_state(mean < 0.95 * first, "The loss did not fall.");

    const auto scope = strategy.scope();
    for (const slim::Variable& mean_of_layer : slim::get_variables_by_name("moving_mean")) {
      bg::check_state(mean_of_layer.read().any().item<bool>(),
                      mean_of_layer.name() + " was not updated.");
    }
    bg::checkpoint::Saver saver({.directory = folder});
    saver.save(train_op.global_step(), {.variables = bg::global_variables()});
    saver.close();
  });
}
