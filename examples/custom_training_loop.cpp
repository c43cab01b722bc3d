// A training loop written out, as in TensorFlow's guide to custom training with a strategy:
// variables, metrics and the optimizer made under scope(), one step function, metrics reset every
// epoch.
#include <brigade/brigade.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <iostream>

namespace bg = brigade;

int main() {
  return bg::run_main([&] {
    bg::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
    std::cout << "Number of devices: " << strategy.num_replicas_in_sync() << "\n";

    // Ten noisy classes: what a linear layer can learn.
    const auto dataset = bg::synthetic(1000, {10}, 10, /*seed=*/1).shuffle(1000).batch(64);
    const auto distributed = strategy.distribute(dataset);

    const auto scope = strategy.scope();
    auto model = strategy.create([] {
      return std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(10, 32),
                                                         torch::nn::Linear(32, 10));
    });
    auto optimizer = bg::optimizer(model, bg::optim::Adam{.learning_rate = 1e-2});
    const bg::metrics::Mean train_loss("loss");
    const bg::metrics::SparseCategoricalAccuracy train_accuracy("accuracy");

    const auto train_step = [&](const bg::LabeledBatch& local) {
      const at::Tensor predictions = model.local().forward(local.features);
      const at::Tensor losses = bg::losses::sparse_categorical_crossentropy(
          predictions, local.labels, {.reduction = bg::losses::Reduction::kNone});
      optimizer.minimize(losses);
      train_loss.update_state(losses);
      train_accuracy.update_state(local.labels, predictions);
    };

    for (int epoch = 0; epoch < 2; ++epoch) {
      train_loss.reset_state();
      train_accuracy.reset_state();
      for (const auto& batch : distributed) strategy.run(train_step, batch);
      std::cout << "Epoch " << epoch + 1 << " Loss: " << train_loss.result()
                << " Accuracy: " << train_accuracy.result() << "\n";
    }
  });
}
