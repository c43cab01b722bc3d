// Horizontal slices of a model: one device computes the first layers, the next one the others, and
// the micro-batches of a batch pass through them one after another. The result is that of one
// device, to the bit, which this program checks.
//
//   example_pipeline [DIRECTORY [EXAMPLES]]
#include <brigade/brigade.h>

#include <cstdlib>
#include <iostream>
#include <vector>

namespace bg = brigade;

namespace {

constexpr int kMicroBatches = 8;

/// The losses of all steps of an epoch.
std::vector<float> train(bg::Strategy& strategy, const bg::Dataset<bg::LabeledBatch>& dataset) {
  const auto model = strategy.create<bg::models::MnistCnn>();  // names its layers: conv1, ...
  const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  const auto train_step = [&](const bg::LabeledBatch& micro_batch) {
    const at::Tensor loss =
        bg::losses::sparse_softmax_cross_entropy(model(micro_batch.features), micro_batch.labels);
    return adam.minimize(loss);
  };
  std::vector<float> losses;
  for (const auto& batch : strategy.distribute(dataset)) {
    const auto of_micro_batches = strategy.run(train_step, batch);
    losses.push_back(strategy.reduce_loss(of_micro_batches).item<float>());
  }
  std::cout << strategy.name() << ": " << losses.size() << " steps, loss " << losses.front()
            << " to " << losses.back() << "\n";
  return losses;
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const char* directory = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const std::int64_t examples = argc > 2 ? std::atoll(argv[2]) : 60'000;
    const auto dataset = bg::fashion_mnist(directory).take(examples).shuffle(10'000).batch(128);

    // The layers from conv2 on are the second device's.
    bg::PipelineStrategy pipeline({.devices = {"cpu:0", "cpu:1"},
                                   .cut = {"conv2"},
                                   .micro_batches = kMicroBatches,
                                   .allow_oversubscription = true});
    const auto losses = train(pipeline, dataset);
    std::cout << "The last step, a line for each device:\n" << pipeline.timeline().text();

    bg::OneDeviceStrategy one_device({.device = "cpu:0", .logical_replicas = kMicroBatches});
    bg::check_state(train(one_device, dataset) == losses, "One device must give the same losses.");
    bg::check_state(losses.back() < 0.8F * losses.front(), "The loss did not fall.");
  });
}
