// A training loop written out: the model, its metrics and its optimizer made under scope(), and one
// step function that runs on each device.
//
//   example_custom_training_loop [DIRECTORY [EXAMPLES]]
#include <brigade/brigade.h>

#include <iostream>
#include <utility>

namespace bg = brigade;

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const std::int64_t examples = argc > 2 ? std::stoll(argv[2]) : 60'000;
    const auto images = bg::fashion_mnist(argc > 1 ? argv[1] : bg::kFashionMnistDirectory);

    bg::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});  // or {"/gpu:0", "/gpu:1"}
    const auto distributed = strategy.distribute(images.take(examples).shuffle(10'000).batch(32));
    const auto scope = strategy.scope();
    const auto model = strategy.create(
        bg::Sequential({bg::Conv2D{.filters = 32, .kernel_size = 3, .activation = "relu"},
                        bg::MaxPooling2D{}, bg::Flatten{}, bg::Dense{.units = 10}}),
        at::zeros({1, 1, 28, 28}));
    const auto optimizer = bg::optimizer(model, bg::optim::Adam{});
    const bg::metrics::Mean train_loss("loss");
    const bg::metrics::CategoricalAccuracy train_accuracy("accuracy");

    const auto train_step = [&](const bg::LabeledBatch& local) {
      const at::Tensor labels = bg::one_hot(local.labels, 10), logits = model(local.features);
      // One loss for each example: `minimize` takes the mean over the parts of all devices.
      const at::Tensor losses = bg::losses::categorical_crossentropy(
          logits, labels, {.reduction = bg::losses::Reduction::kNone});
      optimizer.minimize(losses);
      train_loss.update_state(losses);
      train_accuracy.update_state(labels, logits);
    };

    double before = 0, after = 0;  // losses of the last two epochs
    for (int epoch = 1; epoch <= 2; ++epoch) {
      train_loss.reset_state();
      train_accuracy.reset_state();
      for (const auto& batch : distributed) strategy.run(train_step, batch);
      before = std::exchange(after, train_loss.result());
      std::cout << "Epoch " << epoch << " Loss: " << after
                << " Accuracy: " << train_accuracy.result() << "\n";
    }
    bg::check_state(train_accuracy.count() == static_cast<double>(examples), "Some did not count.");
    bg::check_state(after < 0.8 * before, "The loss did not fall.");
  });
}
