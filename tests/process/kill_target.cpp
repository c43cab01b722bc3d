// A training to be killed: everything in it that goes on from step to step must come back.
//   process_kill_target DATA_DIR CHECKPOINT_DIR PAGE REPLICAS
// It tells in the file PAGE where it is, and at the end one line of JSON on what became of it.
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/checkpoint/weights_hash.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/input/image_tensor.h"
#include "brigade/input/mnist.h"
#include "brigade/layers/losses.h"
#include "brigade/metrics/accuracy.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/schedule.h"
#include "brigade/train/session/session.h"
#include "tests/process/notifying_file_system.h"
#include "tests/process/progress_page.h"

namespace brigade::process {
namespace {

constexpr std::int64_t kExamples = 250;
constexpr std::int64_t kBatch = 16;  // no divisor of the examples: batches reach over epochs
constexpr std::int64_t kEpochs = 25;
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kWidth = 96;
constexpr std::int64_t kStepsBetweenSaves = 8;

/// With dropout, and a statistic that each replica keeps for itself.
struct Net : torch::nn::Module {
  Net() {
    hidden = register_parameter("hidden", (at::rand({kWidth, 784}) - 0.5) * 0.1);
    out = register_parameter("out", (at::rand({kClasses, kWidth}) - 0.5) * 0.2);
    mean = register_buffer("mean", at::zeros({kWidth}));
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor values = at::relu(at::linear(images.flatten(1), hidden));
    if (values.size(0) > 0) {
      const at::NoGradGuard no_grad;
      mean.mul_(0.9).add_(values.detach().mean(0), 0.1);
    }
    return at::linear(at::dropout(values, 0.3, true), out);
  }
  at::Tensor hidden, out, mean;
};

/// The examples, cropped at random, with their index in the file as part of the label.
data::Dataset<input::LabeledBatch> batches_of(const std::string& data_dir) {
  return input::fashion_mnist(data_dir)
      .take(kExamples)
      .map(
          [](input::LabeledExample example, data::ElementContext& context) {
            example.features = input::random_crop(example.features, {.padding = 2}, context);
            example.label += kClasses * static_cast<std::int64_t>(context.index);
            return example;
          },
          {.parallelism = 2})
      .shuffle(60)
      .repeat(kEpochs)
      .batch(kBatch)
      .prefetch(3);
}

/// How often each example was seen in each epoch. It goes back and on with the checkpoints.
class Ledger {
 public:
  void count(const distribute::PerReplica<input::LabeledBatch>& batch) {
    for (const input::LabeledBatch& share : batch.values()) {
      const at::Tensor labels = share.labels.contiguous();
      for (std::int64_t i = 0; i < labels.numel(); ++i) {
        const std::int64_t example = labels.const_data_ptr<std::int64_t>()[i] / kClasses;
        if (seen_ / kExamples < kEpochs) {
          ++counts_.mutable_data_ptr<std::int64_t>()[seen_ / kExamples * kExamples + example];
        }
        ++seen_;
      }
    }
  }
  train::Checkpointable checkpointable() {
    return {.name = "ledger",
            .save =
                [this] {
                  return train::CheckpointableState{.tree = io::StateTree(seen_),
                                                    .tensors = {{"counts", counts_}}};
                },
            .restore =
                [this](const train::CheckpointableState& saved) {
                  seen_ = saved.tree.as_int64();
                  counts_ = saved.tensors.at("counts").clone();
                }};
  }
  std::int64_t seen() const { return seen_; }
  std::int64_t lost() const { return (counts_ == 0).sum().item<std::int64_t>(); }
  std::int64_t seen_twice() const { return (counts_ > 1).sum().item<std::int64_t>(); }

 private:
  at::Tensor counts_ = at::zeros({kEpochs, kExamples}, at::kLong);  // [epoch, example]
  std::int64_t seen_ = 0;
};

class Training {
 public:
  Training(const std::string& data_dir, int replicas)
      : strategy_({.devices = devices(replicas), .allow_oversubscription = true, .seed = 7}),
        model_(strategy_.create<Net>()),
        adam_(strategy_.optimizer(model_, optim::Adam{.learning_rate = 2e-3})),
        batches_(strategy_.distribute(batches_of(data_dir)).iterator()),
        accuracy_(make_accuracy()),
        state_(strategy_) {
    state_.add_model(model_);
    state_.add_optimizer("adam", adam_);
    state_.add_schedule(
        "adam",
        optim::ExponentialDecay{.initial_learning_rate = 2e-3, .decay_steps = 50, .decay_rate = 0.9}
            .schedule());
    state_.add_iterator("train", batches_);
    state_.add_metric(accuracy_);
    state_.add(ledger_.checkpointable());
  }

  std::optional<train::StepValues> step() {
    const auto batch = batches_.next();
    if (!batch) return std::nullopt;
    ledger_.count(*batch);
    const auto losses = strategy_.run(
        [&](distribute::ReplicaContext&, const input::LabeledBatch& share) {
          const at::Tensor labels = share.labels.remainder(kClasses);
          const at::Tensor logits = model_(share.features);
          const at::Tensor loss = layers::losses::sparse_softmax_cross_entropy(logits, labels);
          const auto step_loss = adam_.minimize(loss);
          accuracy_.update_state(labels, logits.detach());
          return step_loss;
        },
        *batch);
    return train::StepValues{{"loss", strategy_.reduce_loss(losses)}};
  }

  std::string weights() const {
    std::vector<checkpoint::NamedTensor> values;
    for (const auto& variable : model_.variables())
      values.push_back({variable.name(), variable.read()});
    return checkpoint::weights_sha256(values);
  }
  double accuracy() const { return accuracy_.result(); }
  const Ledger& ledger() const { return ledger_; }
  train::TrainingState& state() { return state_; }

 private:
  static std::vector<std::string> devices(int replicas) {
    std::vector<std::string> names;
    for (int i = 0; i < replicas; ++i) names.push_back(base::str_cat("cpu:", i));
    return names;
  }
  metrics::SparseCategoricalAccuracy make_accuracy() {
    const auto scope = strategy_.scope();
    return metrics::SparseCategoricalAccuracy("accuracy");
  }

  distribute::MirroredStrategy strategy_;
  distribute::Replicated<Net> model_;
  distribute::Optimizer adam_;
  distribute::DistributedIterator<input::LabeledBatch> batches_;
  metrics::SparseCategoricalAccuracy accuracy_;
  Ledger ledger_;
  train::TrainingState state_;
};

/// Writes to the page how far the session is.
class ProgressHook final : public train::SessionRunHook {
 public:
  explicit ProgressHook(ProgressPage& page) : page_(page) {}
  void begin(train::SessionContext&) override { page_.set(TrainerPhase::kLooking); }
  void after_run(train::SessionContext& context, const train::StepValues&) override {
    page_.set_step(context.global_step());
  }
  void end(train::SessionContext&) override { page_.set(TrainerPhase::kEnd); }

 private:
  ProgressPage& page_;
};

void run(Training& training, const io::Path& checkpoint_dir, ProgressPage& page) {
  train::SessionOptions options;
  options.checkpoint_dir = checkpoint_dir;
  options.hooks = {std::make_shared<ProgressHook>(page)};
  options.save_checkpoints = {.steps = kStepsBetweenSaves};
  options.save_summaries = {};
  options.log_step_count = {};
  options.scaffold.saver.keep_last = 2;
  options.scaffold.local_init = [&](train::TrainingState&) { page.set(TrainerPhase::kBetween); };
  train::MonitoredTrainingSession session(
      training.state(), options,
      {.files = std::make_shared<NotifyingFileSystem>(io::posix_file_system(), page)});
  const std::int64_t begun = training.state().global_step();
  page.set_step(begun);
  page.set_begun(begun, static_cast<std::int64_t>(session.passed_over().size()));
  while (!session.should_stop()) {
    session.run([&] {
      page.set(TrainerPhase::kStep);
      auto values = training.step();
      page.set(values ? TrainerPhase::kBetween : TrainerPhase::kEnd);
      return values;
    });
  }
  page.set(TrainerPhase::kEnd);
  session.close();
}

int main_or_throw(int count, char** arguments) {
  if (count != 5) {
    std::cerr << "usage: " << arguments[0] << " DATA_DIR CHECKPOINT_DIR PAGE REPLICAS\n";
    return 2;
  }
  ProgressPage page(arguments[3]);
  Training training(arguments[1], std::atoi(arguments[4]));
  run(training, arguments[2], page);
  const Ledger& ledger = training.ledger();
  std::cout << base::str_cat("{\"weights_sha256\": \"", training.weights(),
                             "\", \"steps\": ", training.state().global_step(),
                             ", \"accuracy\": ", training.accuracy(), ", \"epochs\": ", kEpochs,
                             ", \"examples\": ", ledger.seen(), ", \"lost\": ", ledger.lost(),
                             ", \"seen_twice\": ", ledger.seen_twice(), "}\n");
  return 0;
}

}  // namespace
}  // namespace brigade::process

int main(int count, char** arguments) {
  try {
    return brigade::process::main_or_throw(count, arguments);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
