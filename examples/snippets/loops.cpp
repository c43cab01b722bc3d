// Loops, checkpoints and summaries: docs/guide/custom-loops.md, from-libtorch.md, checkpoints.md,
// tensorboard.md.
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "snippets.h"

namespace snippets {

using Linear = torch::nn::LinearImpl;

void custom_loop(bg::Strategy& strategy) {
  const auto dataset = bg::synthetic(256, {10}, 10).batch(32);
  auto model = strategy.create<Linear>({.name = "loop"}, 10, 10);
  // [loop_with_clipping]
  auto adam = strategy.optimizer(model, bg::optim::Adam{});
  const auto rate = bg::optim::CosineDecay{.initial_learning_rate = 1e-3, .decay_steps = 100};
  const auto schedule = rate.schedule();
  const auto train_step = [&](const bg::LabeledBatch& local) {
    const auto loss = bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
    auto gradients = adam.aggregate(adam.compute_gradients(loss));  // the sum over all replicas
    bg::optim::clip_by_global_norm_(gradients, 1.0);
    return adam.apply_gradients(gradients);
  };
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const auto& batch : strategy.distribute(dataset)) {
      adam.set_learning_rate((*schedule)(adam.updates()));
      const auto losses = strategy.run(train_step, batch);
      const at::Tensor loss = strategy.reduce_loss(losses);
    }
  }
  // [/loop_with_clipping]
  // [accumulation]
  auto sgd = strategy.optimizer(model, bg::optim::Sgd{.learning_rate = 0.1}, {.accumulate = 4});
  for (const auto& batch : strategy.distribute(dataset.take(6))) {
    strategy.run(
        [&](const bg::LabeledBatch& local) {  // every fourth call updates
          sgd.minimize(
              bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels));
        },
        batch);
  }
  sgd.flush();  // the last two batches count, too
  // [/accumulation]
  // [evaluation]
  const auto scope = strategy.scope();
  const bg::metrics::SparseCategoricalAccuracy accuracy("accuracy");
  model.eval();
  {
    const at::NoGradGuard no_grad;
    for (const auto& batch : strategy.distribute(dataset)) {
      strategy.run(
          [&](const bg::LabeledBatch& local) {
            accuracy.update_state(local.labels, model(local.features));
          },
          batch);
    }
  }
  model.train();
  std::cout << "accuracy " << accuracy.result() << "\n";  // exact over all replicas
  // [/evaluation]
}

void from_libtorch(bg::Strategy& strategy, const std::string& folder) {
  torch::save(std::make_shared<Linear>(10, 10), folder + "/linear.pt");
  // [load]
  auto model = strategy.create([&] {  // called once for each replica
    auto net = std::make_shared<Linear>(10, 10);
    torch::load(net, folder + "/linear.pt");  // before the model is created, not after
    return net;
  });
  // [/load]
  // [groups]
  auto sgd = strategy.optimizer(
      model, bg::optim::Sgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 1e-4},
      {.groups = {{.names = {"bias"}, .learning_rate = 0.2, .weight_decay = 0.0}}});
  // [/groups]
  for (const auto& batch : strategy.distribute(bg::synthetic(64, {10}, 10).batch(32))) {
    strategy.run(
        [&](const bg::LabeledBatch& local) {
          sgd.minimize(
              bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels));
        },
        batch);
  }
  // [save]
  std::vector<bg::checkpoint::NamedTensor> weights;
  for (const auto& variable : model.variables())
    weights.push_back({variable.name(), variable.read()});
  const auto files = bg::io::posix_file_system();
  bg::checkpoint::save_safetensors(*files, folder + "/linear.safetensors", weights);
  // [/save]
  // [use]
  torch::nn::Linear net(10, 10);  // plain libtorch again
  const at::NoGradGuard no_grad;
  for (const auto& each : bg::read_weights_file(files, folder + "/linear.safetensors").tensors)
    net->named_parameters()[each.name].copy_(each.tensor);
  // [/use]
}

void checkpoints(const std::string& folder) {
  bg::OneDeviceStrategy strategy("cpu:0");
  // [session]
  auto model = strategy.create<Linear>(10, 10);
  auto adam = strategy.optimizer(model, bg::optim::Adam{.learning_rate = 1e-3});
  auto batches =
      strategy.distribute(bg::synthetic(640, {10}, 10).shuffle(640).repeat().batch(32)).iterator();
  bg::MonitoredTrainingSession session(
      strategy, {.checkpoint_dir = folder + "/run",
                 .hooks = {bg::StopAtStepHook{.last_step = 50}, bg::NanHook{}},
                 .save_checkpoints = {.steps = 20, .time = std::chrono::minutes(10)}});
  while (!session.should_stop()) {
    session.run(batches, [&](const bg::LabeledBatch& local) {
      const auto loss =
          bg::losses::sparse_softmax_cross_entropy(model(local.features), local.labels);
      return adam.minimize(loss);
    });
  }
  session.close();  // saves, and throws if that failed
  // [/session]
}

void tensorboard(bg::Strategy& strategy, const std::string& folder) {
  const auto model = strategy.create<Linear>({.name = "watched"}, 10, 10);
  // [summary_writer]
  const bg::base::SystemClock clock;
  bg::summary::SummaryWriter summaries(bg::io::posix_file_system(), folder + "/summaries", clock);
  for (int step = 0; step < 3; ++step) {
    summaries.scalar("loss", 1.0 / (step + 1), step);
    const at::Tensor weights = model.variables()[0].read().contiguous();
    summaries.histogram("weights", std::span(weights.const_data_ptr<float>(), weights.numel()),
                        step);
  }
  summaries.text("notes", "a **short** run", 0);
  summaries.close();
  // [/summary_writer]
}

}  // namespace snippets
