// A Slim model on several machines: the same program runs on each of them, and TF_CONFIG says where
// all of them are and which one this is. A cluster manager sets it; without one, the program writes
// it itself, for two processes on this machine:
//
//   example_slim_workers --task=chief
//   example_slim_workers --task=worker
//
// Further flags: --chief and --worker (their addresses), --data_dir.
#include <brigade/brigade.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>

namespace bg = brigade;
namespace slim = bg::slim;

namespace {

constexpr int kBatchSize = 32;  // of each replica
constexpr int kSteps = 100;

at::Tensor build_model(const at::Tensor& images, std::int64_t num_classes) {
  at::Tensor net = slim::conv2d(images, 64, {3, 3}, {.scope = "conv1"});
  net = slim::max_pool2d(net, {2, 2}, {.scope = "pool1"});
  net = slim::flatten(net, {.scope = "flatten"});
  net = slim::fully_connected(net, 256, {.scope = "fc1"});
  return slim::fully_connected(net, num_classes, {.activation = nullptr, .scope = "fc2"});
}

/// Keeps a TF_CONFIG that is already there.
void set_tf_config(const bg::Flags& flags) {
  const std::string config = R"({"cluster": {"chief": [")" + flags.at("chief") +
                             R"("], "worker": [")" + flags.at("worker") +
                             R"("]}, "task": {"type": ")" + flags.at("task") + R"(", "index": 0}})";
  setenv("TF_CONFIG", config.c_str(), /*overwrite=*/0);
}

void train(bg::Strategy& strategy, const std::string& data_dir) {
  // The same global batches in every process, which takes its replicas' part of each.
  const int global_batch_size = kBatchSize * strategy.num_replicas_in_sync();
  const auto dataset =
      bg::fashion_mnist(data_dir).shuffle(10'000).batch(global_batch_size).take(kSteps);

  const auto model = strategy.create(
      [](const at::Tensor& images) { return build_model(images, 10); }, at::zeros({1, 1, 28, 28}));
  const auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  const auto train_step = [&](const bg::LabeledBatch& local) {
    const at::Tensor loss =
        bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
    return adam.minimize(loss);  // adds the gradients of all processes, and updates in all of them
  };

  int steps = 0;
  double first = 0, last = 0;
  for (const auto& batch : strategy.distribute(dataset)) {
    last = strategy.reduce_loss(strategy.run(train_step, batch)).item<double>();
    if (steps++ == 0) first = last;
    if (strategy.is_chief() && steps % 10 == 0)
      std::cout << "Step " << steps << " loss = " << last << std::endl;
  }
  bg::check_state(steps == kSteps, "There was not a batch for every step.");
  bg::check_state(std::abs(first - std::log(10.0)) < 0.3 && last < 0.5 * first,
                  "The loss did not fall from ln 10 to half of it.");

  // All processes have the same weights, to the bit.
  for (const bg::Variable& variable : model.variables()) {
    const at::Tensor all = strategy.gather_workers(variable.read().unsqueeze(0));
    bg::check_state(all.equal(all[0].expand_as(all)), variable.name() + " differs.");
  }
  std::cout << "Worker " << strategy.worker_index() << " of " << strategy.num_workers() << ": "
            << steps << " steps, loss " << first << " to " << last << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  return bg::run_main([&] {
    const bg::Flags flags = bg::parse_flags(argc, argv,
                                            {{"task", "chief"},
                                             {"chief", "localhost:2222"},
                                             {"worker", "localhost:2223"},
                                             {"data_dir", bg::kFashionMnistDirectory}});
    set_tf_config(flags);
    bg::MultiWorkerMirroredStrategy strategy;  // returns when both processes are there
    train(strategy, flags.at("data_dir"));
  });
}
