#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "brigade/checkpoint/weights_hash.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/synthetic.h"
#include "brigade/layers/losses.h"
#include "brigade/metrics/accuracy.h"
#include "brigade/optim/adam.h"
#include "brigade/train/session/step_values.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

/// For tests: a small net with all kinds of state: weights, dropout, and a statistic that differs
/// between replicas.
struct ToyNet : torch::nn::Module {
  explicit ToyNet(std::int64_t width = 8) {
    hidden = register_parameter("hidden", at::rand({width, 4}) - 0.5);
    out = register_parameter("out", at::rand({3, width}) - 0.5);
    mean = register_buffer("mean", at::zeros({width}));
  }
  at::Tensor forward(const at::Tensor& features) {
    at::Tensor values = at::relu(at::linear(features.flatten(1), hidden));
    if (is_training() && values.size(0) > 0) {
      const at::NoGradGuard no_grad;
      mean.mul_(0.9).add_(values.detach().mean(0), 0.1);
    }
    return at::linear(at::dropout(values, 0.3, is_training()), out);
  }
  at::Tensor hidden, out, mean;
};

/// For tests: a whole training, as a process creates it at each start: 4 epochs of 5 shuffled
/// batches of 7 examples.
struct ToyTraining {
  explicit ToyTraining(distribute::Strategy& the_strategy,
                       const optim::Adam& rule = {.learning_rate = 0.05}, std::int64_t width = 8,
                       const distribute::OptimizerOptions& options = {})
      : strategy(the_strategy),
        model(strategy.create<ToyNet>(width)),
        adam(strategy.optimizer(model, rule, options)),
        batches(strategy
                    .distribute(input::synthetic(35, {4}, 3)
                                    .shuffle(data::ShuffleOptions{.buffer_size = 20})
                                    .repeat(4)
                                    .batch(7))
                    .iterator()),
        accuracy(make_accuracy()),
        state(strategy) {
    state.add_model(model);
    state.add_optimizer("adam", adam);
    state.add_iterator("train", batches);
    state.add_metric(accuracy);
  }

  std::optional<StepValues> step() {
    const auto batch = batches.next();
    if (!batch) return std::nullopt;
    const auto losses = strategy.run(
        [&](distribute::ReplicaContext& context, const input::LabeledBatch& replica_batch) {
          const at::Tensor logits = model(replica_batch.features);
          at::Tensor loss =
              layers::losses::sparse_categorical_crossentropy(logits, replica_batch.labels);
          if (overflows.contains(context.step()) && context.replica_id() + 1 == context.count)
            loss = loss * std::numeric_limits<float>::infinity();
          const auto step_loss = adam.minimize(loss);
          accuracy.update_state(replica_batch.labels, logits.detach());
          return step_loss;
        },
        *batch);
    return StepValues{{"loss", strategy.reduce_loss(losses)}};
  }

  /// Makes steps like a loop without a session.
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      step();
      state.advance();
    }
  }

  std::string weights() const {
    std::vector<checkpoint::NamedTensor> values;
    for (const auto& variable : model.variables())
      values.push_back({variable.name(), variable.read()});
    return checkpoint::weights_sha256(values);
  }

  metrics::SparseCategoricalAccuracy make_accuracy() {
    const auto scope = strategy.scope();
    return metrics::SparseCategoricalAccuracy("accuracy");
  }

  std::set<std::uint64_t> overflows = {};  // runs in which the last replica's loss is infinite
  distribute::Strategy& strategy;
  distribute::Replicated<ToyNet> model;
  distribute::Optimizer adam;
  distribute::DistributedIterator<input::LabeledBatch> batches;
  metrics::SparseCategoricalAccuracy accuracy;
  TrainingState state;
};

}  // namespace brigade::train
