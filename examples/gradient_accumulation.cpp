// A training loop that accumulates gradients: four small batches make one update, with the effect
// of one batch four times as large, for which there may be no memory. Trains both ways, and
// compares.
//
//   example_gradient_accumulation [DIRECTORY [EXAMPLES]]
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>
#include <vector>

namespace bg = brigade;

namespace {

/// Two epochs by batches of `batch_size`, of which `accumulate` make an update. Returns the
/// weights.
std::vector<at::Tensor> train(const bg::Dataset<bg::LabeledExample>& examples,
                              std::int64_t batch_size, int accumulate) {
  bg::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto scope = strategy.scope();
  const auto model = strategy.create<bg::models::Mlp>();
  const auto sgd =
      bg::optimizer(model, bg::optim::Sgd{.learning_rate = 0.1}, {.accumulate = accumulate});
  const bg::metrics::Mean train_loss("loss");

  const auto train_step = [&](const bg::LabeledBatch& local) {
    const at::Tensor loss = bg::losses::sparse_categorical_crossentropy(
        model(local.features), local.labels, {.reduction = bg::losses::Reduction::kNone});
    sgd.minimize(loss);  // a mean over the examples of all replicas and all batches of an update
    train_loss.update_state(loss);
  };
  // Without this each replica would train on the whole of every batch, as in the tutorial's loop.
  const auto distributed = strategy.distribute(examples.batch(batch_size));
  double first = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    train_loss.reset_state();
    for (const auto& batch : distributed) strategy.run(train_step, batch);
    sgd.flush();  // the last batches of an epoch count, too, if they are fewer
    if (epoch == 0) first = train_loss.result();
  }
  std::cout << "Batches of " << batch_size << ", " << accumulate << " an update: " << sgd.updates()
            << " updates, loss " << first << " to " << train_loss.result() << "\n";
  bg::check_state(train_loss.result() < first, "The loss did not fall.");

  std::vector<at::Tensor> weights;
  for (const bg::Variable& variable : model.variables()) weights.push_back(variable.read());
  return weights;
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const char* directory = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const std::int64_t count = argc > 2 ? std::atoll(argv[2]) : 60'000;
    const auto examples = bg::fashion_mnist(directory).take(count);

    const auto large = train(examples, 64, 1);
    const auto accumulated = train(examples, 16, 4);
    for (std::size_t i = 0; i < large.size(); ++i) {
      bg::check_state(at::allclose(accumulated[i], large[i], 1e-4, 1e-5),
                      "Accumulated gradients must make the update of the large batch.");
    }
    std::cout << "Both have the same weights.\n";
  });
}
