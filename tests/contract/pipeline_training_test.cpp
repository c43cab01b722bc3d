// Models of the library in a pipeline: they are cut at their layers' names, train with the bits of
// one device, and go on from its checkpoints, as one device does from theirs.
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/restore.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/strategies/pipeline_strategy.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/layers/layer_sequence.h"
#include "brigade/layers/losses.h"
#include "brigade/models/keras/sequential.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/optim/adam.h"

namespace brigade::distribute {
namespace {

constexpr int kMicroBatches = 4;
constexpr int kBatchOfTen = 10;
constexpr std::uint64_t kPipelineSeed = 3;

/// Trains and evaluates a model of 28x28 images of ten classes.
template <class Model>
class PipedTraining {
 public:
  PipedTraining(Strategy& strategy, Model model)
      : strategy_(strategy),
        model_(std::move(model)),
        adam_(strategy.optimizer(model_, optim::Adam{.learning_rate = 0.01})) {}

  void steps(int count) {
    const at::Tensor images =
        at::arange(kBatchOfTen * 784, at::kFloat).view({kBatchOfTen, 1, 28, 28}).sin();
    const at::Tensor labels = at::arange(kBatchOfTen, at::kLong);
    for (int step = 0; step < count; ++step) {
      strategy_.run(
          [&](const input::LabeledBatch& local) {
            adam_.minimize(
                layers::losses::sparse_softmax_cross_entropy(model_(local.features), local.labels));
          },
          strategy_.split_batch(input::LabeledBatch{images, labels}));
    }
  }

  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> values;
    for (const variables::Variable& variable : model_.variables())
      values.push_back(variable.read());
    for (const auto& [name, slot] : adam_.state().save("adam").slots)
      values.push_back(slot.clone());
    return values;
  }

  /// Whether `values()[index]` is a variable that each replica updates separately.
  bool is_statistic(std::size_t index) const {
    const auto& variables = model_.variables();
    return index < variables.size() &&
           variables[index].synchronization() == variables::Synchronization::kOnRead;
  }

  void save(const std::shared_ptr<io::FileSystem>& files) const {
    optim::SavedOptimizer saved = adam_.state().save("adam");
    checkpoint::Contents contents;
    contents.variables = model_.variables();
    contents.state = saved.state;
    for (const auto& [name, slot] : saved.slots) contents.tensors.push_back({name, slot});
    checkpoint::Saver saver(files, {.directory = "/run"});
    saver.save(static_cast<std::int64_t>(strategy_.step()), contents);
    saver.close();
  }
  void restore(const std::shared_ptr<io::FileSystem>& files) {
    const auto checkpoint =
        checkpoint::Checkpoint::open(files, *checkpoint::latest_checkpoint(*files, "/run"));
    checkpoint::restore_variables(checkpoint, model_.variables());
    optim::SavedOptimizer saved{.slots = {}, .state = checkpoint.state()};
    for (const auto& each : checkpoint.tensors(checkpoint::Section::kTensors))
      saved.slots[each.name] = each.tensor;
    adam_.restore("adam", saved);
    strategy_.set_step(static_cast<std::uint64_t>(checkpoint.step()));
  }

 private:
  Strategy& strategy_;
  Model model_;
  Optimizer adam_;
};

OneDeviceStrategy one_device() {
  return OneDeviceStrategy(OneDeviceOptions{
      .device = "cpu:0", .logical_replicas = kMicroBatches, .seed = kPipelineSeed});
}

PipelineStrategy pipeline(std::vector<std::string> cut) {
  return PipelineStrategy(PipelineStrategyOptions{.cut = std::move(cut),
                                                  .micro_batches = kMicroBatches,
                                                  .allow_oversubscription = true,
                                                  .seed = kPipelineSeed,
                                                  .timeout = std::chrono::seconds(60)});
}

/// `make(strategy)` creates the model.
template <class Make>
void expect_bits_and_checkpoints_of_one_device(const std::vector<std::string>& cut,
                                               const Make& make) {
  OneDeviceStrategy unbroken_one = one_device();
  PipedTraining unbroken(unbroken_one, make(unbroken_one));
  unbroken.steps(4);
  const auto expected = unbroken.values();
  // `what` continues a checkpoint; empty: nothing was interrupted.
  const auto check = [&](const auto& training, std::string_view what) {
    const auto values = training.values();
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      // A checkpoint has the mean of the replicas' statistics, with which each replica continues.
      const bool is_rounded = !what.empty() && training.is_statistic(i);
      EXPECT_TRUE(is_rounded ? at::allclose(values[i], expected[i], 1e-6, 1e-7)
                             : at::equal(values[i], expected[i]))
          << what << ", variable " << i;
    }
  };
  const auto of_one = std::make_shared<io::MemoryFileSystem>();
  const auto of_pipeline = std::make_shared<io::MemoryFileSystem>();
  {
    OneDeviceStrategy one = one_device();
    PipedTraining first(one, make(one));
    first.steps(2);
    first.save(of_one);
    PipelineStrategy pipe = pipeline(cut);
    PipedTraining piped(pipe, make(pipe));
    piped.steps(2);
    piped.save(of_pipeline);
    EXPECT_EQ(pipe.passes(),
              concurrency::stage_orders(PipelineSchedule::k1F1B, pipe.num_stages(), kMicroBatches));
    piped.steps(2);
    check(piped, "");
  }
  PipelineStrategy pipe = pipeline(cut);
  PipedTraining piped(pipe, make(pipe));
  piped.restore(of_one);
  piped.steps(2);
  check(piped, "a pipeline that continues one device's training");
  OneDeviceStrategy one = one_device();
  PipedTraining second(one, make(one));
  second.restore(of_pipeline);
  second.steps(2);
  check(second, "one device that continues a pipeline's training");
}

TEST(PipelineTraining, AnMlp) {
  expect_bits_and_checkpoints_of_one_device({"dense2"}, [](Strategy& strategy) {
    return strategy.create<models::Mlp>(models::MlpOptions{.hidden = {20, 12}});
  });
}

TEST(PipelineTraining, TheMnistCnn) {
  expect_bits_and_checkpoints_of_one_device(
      {"conv2", "dense1"}, [](Strategy& strategy) { return strategy.create<models::MnistCnn>(); });
}

TEST(PipelineTraining, ASequenceOfModules) {
  expect_bits_and_checkpoints_of_one_device({"2", "3"}, [](Strategy& strategy) {
    return strategy.create([] {
      auto net = std::make_shared<layers::LayerSequence>();
      net->push_back("first", torch::nn::Flatten());
      net->push_back("second", torch::nn::Linear(784, 9));
      net->push_back(torch::nn::Tanh());
      net->push_back(torch::nn::Dropout(0.2));
      net->push_back("last", torch::nn::Linear(9, 10));
      return net;
    });
  });
}

TEST(PipelineTraining, ASequentialWithBatchNormalization) {
  using models::BatchNormalization, models::Conv2D, models::Dense, models::Dropout, models::Flatten,
      models::MaxPooling2D;
  const models::Sequential net({Conv2D{.filters = 3, .kernel_size = 3, .activation = "relu"},
                                MaxPooling2D{}, BatchNormalization{}, Flatten{}, Dropout{0.3},
                                Dense{.units = 10}});
  expect_bits_and_checkpoints_of_one_device(
      {"batch_normalization", "dense"}, [&](Strategy& strategy) {
        return strategy.create(net, at::zeros({1, 1, 28, 28}));
      });
}

}  // namespace
}  // namespace brigade::distribute
