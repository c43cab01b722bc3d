// A Slim model under any strategy: one model function, built once, trained by one step function on
// one device, mirrored, and with central storage.
//
//   example_slim_mirrored [FOLDER [EXAMPLES]]
#include <brigade/brigade.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace bg = brigade;

namespace {

constexpr std::int64_t kGlobalBatch = 128;

at::Tensor build_model(const at::Tensor& images, bg::Mode mode) {
  namespace slim = bg::slim;
  at::Tensor net = slim::conv2d(images, 16, {3, 3}, {.scope = "conv1"});
  net = slim::max_pool2d(net, {2, 2}, {.scope = "pool1"});
  net = slim::flatten(net, {.scope = "flatten"});
  net = slim::dropout(net, {.keep_prob = 0.8, .mode = mode, .scope = "dropout"});
  net = slim::fully_connected(net, 64, {.scope = "fc1"});
  return slim::fully_connected(net, 10, {.activation = nullptr, .scope = "fc2"});
}

/// Trains for one epoch; the first and the last loss.
std::pair<double, double> train(bg::Strategy& strategy,
                                const bg::Dataset<bg::LabeledBatch>& dataset) {
  auto model = strategy.create(build_model, at::zeros({1, 1, 28, 28}));
  auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  std::vector<double> losses;
  for (const auto& batch : strategy.distribute(dataset)) {
    const auto means = strategy.run(
        [&](const bg::LabeledBatch& local) {
          const at::Tensor loss =
              bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
          return adam.minimize(loss);
        },
        batch);
    losses.push_back(strategy.reduce_loss(means).item<double>());
  }
  std::cout << strategy.name() << ": " << losses.size() << " steps, loss " << losses.front()
            << " to " << losses.back() << "\n";
  return {losses.front(), losses.back()};
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const std::string folder = argc > 1 ? argv[1] : bg::kFashionMnistDirectory;
    const std::int64_t examples = argc > 2 ? std::atoll(argv[2]) : 60'000;
    const auto dataset = bg::fashion_mnist(folder).take(examples).batch(kGlobalBatch);
    bg::OneDeviceStrategy one("/cpu:0");
    bg::MirroredStrategy mirrored({"/cpu:0", "/cpu:1"});
    bg::CentralStorageStrategy central({.compute_devices = {"/cpu:0", "/cpu:1"}});
    for (bg::Strategy* strategy : std::vector<bg::Strategy*>{&one, &mirrored, &central}) {
      const auto [first, last] = train(*strategy, dataset);
      if (std::abs(first - std::log(10.0)) > 0.5 || last >= first) return 1;
    }
    return 0;
  });
}
