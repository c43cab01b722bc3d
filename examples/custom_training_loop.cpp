// A training loop written out: the model, its metrics and its optimizer made under scope(), one
// step function that runs on each device, metrics that are exact over all devices and reset every
// epoch.
//
//   example_custom_training_loop [DIRECTORY [EXAMPLES]]
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>

namespace bg = brigade;

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const char* directory = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const std::int64_t examples = argc > 2 ? std::atoll(argv[2]) : 60'000;

    bg::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});  // or {"/gpu:0", "/gpu:1"}
    std::cout << "Number of devices: " << strategy.num_replicas_in_sync() << "\n";

    const auto scope = strategy.scope();
    const auto model = strategy.create(
        bg::Sequential({bg::Conv2D{.filters = 32, .kernel_size = 3, .activation = "relu"},
                        bg::MaxPooling2D{}, bg::Flatten{},
                        bg::Dense{.units = 10, .activation = "softmax"}}),
        at::zeros({1, 1, 28, 28}));
    const auto optimizer = bg::optimizer(model, bg::optim::Adam{.learning_rate = 0.001});
    const bg::metrics::Mean train_loss("loss");
    const bg::metrics::CategoricalAccuracy train_accuracy("accuracy");

    const auto dataset = bg::fashion_mnist(directory).take(examples);
    const auto distributed =
        strategy.distribute(dataset.shuffle(10'000).batch(32).prefetch(bg::kAutotune));

    const auto train_step = [&](const bg::LabeledBatch& local) {
      const at::Tensor labels = bg::one_hot(local.labels, 10);
      const at::Tensor predictions = model(local.features);
      // One loss for each example: whatever the sizes of the devices' parts, `minimize` takes the
      // mean over the whole batch, and the metric the mean over the epoch.
      const at::Tensor losses = bg::losses::categorical_crossentropy(
          predictions, labels, {.from_logits = false, .reduction = bg::losses::Reduction::kNone});
      optimizer.minimize(losses);
      train_loss.update_state(losses);
      train_accuracy.update_state(labels, predictions);
    };

    double first = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
      train_loss.reset_state();
      train_accuracy.reset_state();
      for (const auto& batch : distributed) strategy.run(train_step, batch);
      if (epoch == 0) first = train_loss.result();
      std::cout << "Epoch " << epoch + 1 << " Loss: " << train_loss.result()
                << " Accuracy: " << train_accuracy.result() << "\n";
    }
    bg::check_state(train_accuracy.count() == static_cast<double>(examples),
                    "Each example must count once an epoch.");
    bg::check_state(train_loss.result() < 0.8 * first, "The loss did not fall.");
  });
}
