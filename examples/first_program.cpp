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
    auto model =
        strategy.create<bg::models::MnistCnn>();  // one copy per replica, with equal values
    auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
    for (const auto& batch : strategy.distribute(train)) {
      const auto loss = strategy.run(
          [&](const bg::LabeledBatch& local) {
            auto local_loss =
                bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
            adam.minimize(local_loss);
            return local_loss.detach();
          },
          batch);
      if (strategy.step() % 10 == 0) {
        std::cout << "step " << strategy.step() << "  loss "
                  << strategy.reduce_mean_over_examples(loss).item<float>() << "\n";
      }
    }
  });
}
