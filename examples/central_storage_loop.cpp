// A training loop with central storage: the variables and the optimizer's slots exist once, on the
// CPU, and the devices compute with copies of the variables.
#include <brigade/brigade.h>

#include <iostream>

namespace bg = brigade;

int main() {
  return bg::run_main([&] {
    // For GPUs: {.compute_devices = {"/gpu:0", "/gpu:1"}}. With one device, the variables would be
    // on it, too, unless `parameter_device` says "/cpu:0".
    bg::CentralStorageStrategy strategy(
        {.compute_devices = {"/cpu:0", "/cpu:1"}, .parameter_device = "/cpu:0"});
    std::cout << "Number of devices: " << strategy.num_replicas_in_sync() << ", variables on "
              << strategy.parameter_device().name.to_string() << "\n";

    const auto scope = strategy.scope();
    const auto model =
        strategy.create(bg::Sequential({bg::Dense{.units = 128, .activation = "relu"},
                                        bg::Dense{.units = 10, .activation = "softmax"}}),
                        at::zeros({1, 10}));
    const auto optimizer = bg::optimizer(model, bg::optim::Adam{.learning_rate = 0.001});
    const bg::metrics::Mean train_loss("loss");
    const bg::metrics::CategoricalAccuracy train_accuracy("accuracy");

    // 2000 is no multiple of 64: the last batch is smaller, and its examples count as all others.
    const auto distributed = strategy.distribute(
        bg::synthetic(2000, {10}, 10).shuffle(2000).batch(64).prefetch(bg::kAutotune));
    const auto train_step = [&](const bg::LabeledBatch& local) {
      const at::Tensor labels = bg::one_hot(local.labels, 10);
      const at::Tensor predictions = model(local.features);
      const at::Tensor losses = bg::losses::categorical_crossentropy(
          predictions, labels, {.from_logits = false, .reduction = bg::losses::Reduction::kNone});
      optimizer.minimize(losses);
      train_loss.update_state(losses);
      train_accuracy.update_state(labels, predictions);
    };

    double first = 0;
    for (int epoch = 0; epoch < 8; ++epoch) {
      train_loss.reset_state();
      train_accuracy.reset_state();
      for (const auto& batch : distributed) strategy.run(train_step, batch);
      if (epoch == 0) first = train_loss.result();
      std::cout << "Epoch " << epoch + 1 << " Loss: " << train_loss.result()
                << " Accuracy: " << train_accuracy.result() << "\n";
    }
    bg::check_state(train_loss.count() == 2000, "Each example must count once an epoch.");
    bg::check_state(train_loss.result() < 0.8 * first, "The loss did not fall.");
    for (const bg::Variable& variable : model.variables()) {
      bg::check_state(variable.local().device() == strategy.parameter_device().torch_device,
                      variable.name() + " is elsewhere.");
    }
  });
}
