// The program of the README: an MNIST CNN on every device of this machine.
//   example_first_program [DIRECTORY [STEPS]]
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>

namespace bg = brigade;

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const char* directory = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const int steps = argc > 2 ? std::atoi(argv[2]) : 1000;

    bg::MirroredStrategy strategy;  // every visible GPU; without one, every core
    const auto train = bg::fashion_mnist(directory)
                           .shuffle(10'000)
                           .repeat(2)
                           .batch(128 * strategy.num_replicas_in_sync())
                           .take(steps)
                           .prefetch(bg::kAutotune);
    auto model = strategy.create<bg::models::MnistCnn>();  // a copy per replica, equal at first
    auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
    const auto train_step = [&](const bg::LabeledBatch& local) {
      auto loss = bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
      return adam.minimize(loss);  // sums the gradients over all replicas and updates once
    };
    for (const auto& batch : strategy.distribute(train)) {
      const auto loss = strategy.run(train_step, batch);
      if (strategy.step() % 10 == 0) {
        std::cout << "step " << strategy.step() << "  loss "
                  << strategy.reduce_loss(loss).item<float>() << "\n";
      }
    }
  });
}
