// Trains a model on every GPU or core of this machine.
//   @PROJECT@ [EPOCHS]
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>

#include "data.h"
#include "loss.h"
#include "model.h"

namespace bg = brigade;

int main(int argc, char** argv) {
  return bg::run_main([&] {  // prints an error's message and returns the exit code of a failure
    const int epochs = argc > 1 ? std::atoi(argv[1]) : 20;
    bg::MirroredStrategy strategy;  // every GPU; without one, every core
    std::cout << "Replicas: " << strategy.num_replicas_in_sync() << "\n";

    const auto train = strategy.distribute(
        spirals(4000, /*seed=*/1).cache().shuffle(4000).batch(100).prefetch(bg::kAutotune));
    const auto test = strategy.distribute(spirals(1000, /*seed=*/1'000'000).batch(100));
    const auto scope = strategy.scope();  // the metrics, too, have a value on every replica
    auto model = strategy.create<SpiralNet>();
    auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-2});
    const bg::metrics::Mean loss("loss");
    const bg::metrics::SparseCategoricalAccuracy accuracy("accuracy");

    for (int epoch = 1; epoch <= epochs; ++epoch) {
      loss.reset_state();
      for (const auto& batch : train) {
        const auto step = [&](const SpiralBatch& local) {
          const at::Tensor losses = focal_loss(model(local.positions), local.labels);
          adam.minimize(losses);  // sums the gradients over all replicas and updates once
          loss.update_state(losses);
        };
        strategy.run(step, batch);
      }
      std::cout << "Epoch " << epoch << " loss: " << loss.result() << "\n";
    }

    model.eval();
    for (const auto& batch : test) {
      const auto step = [&](const SpiralBatch& local) {
        const at::NoGradGuard no_grad;
        accuracy.update_state(local.labels, model(local.positions));
      };
      strategy.run(step, batch);
    }
    std::cout << "Test accuracy: " << accuracy.result() << "\n";

    std::vector<bg::checkpoint::NamedTensor> weights;
    for (const auto& variable : model.variables())
      weights.push_back({variable.name(), variable.read()});
    bg::checkpoint::save_safetensors(*bg::io::posix_file_system(), "@PROJECT@.safetensors",
                                     weights);
  });
}
