// Models of the library in a pipeline: they are cut at their layers' names, train with the bits of
// one device, and go on from its checkpoints, as one device does from theirs.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/restore.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/comm/announced_layers.h"
#include "brigade/device/device_scope.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/strategies/pipeline_strategy.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/layer_sequence.h"
#include "brigade/layers/losses.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/pooling.h"
#include "brigade/layers/recompute.h"
#include "brigade/models/function_classifier.h"
#include "brigade/models/keras/sequential.h"
#include "brigade/models/mlp.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/models/registry.h"
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
  PipedTraining(Strategy& strategy, Model model, const std::vector<std::int64_t>& image_shape)
      : strategy_(strategy),
        images_(images_of(image_shape)),
        model_(std::move(model)),
        adam_(strategy.optimizer(model_, optim::Adam{.learning_rate = 0.01})) {}

  void steps(int count) {
    const at::Tensor labels = at::arange(kBatchOfTen, at::kLong);
    for (int step = 0; step < count; ++step) {
      strategy_.run(
          [&](const input::LabeledBatch& local) {
            adam_.minimize(
                layers::losses::sparse_softmax_cross_entropy(model_(local.features), local.labels));
          },
          strategy_.split_batch(input::LabeledBatch{images_, labels}));
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
  static at::Tensor images_of(std::vector<std::int64_t> shape) {
    shape.insert(shape.begin(), kBatchOfTen);
    const std::int64_t values = c10::multiply_integers(shape);
    return at::arange(values, at::kFloat).view(shape).sin();
  }

  Strategy& strategy_;
  const at::Tensor images_;
  Model model_;
  Optimizer adam_;
};

OneDeviceStrategy one_device() {
  return OneDeviceStrategy(OneDeviceOptions{
      .device = "cpu:0", .logical_replicas = kMicroBatches, .seed = kPipelineSeed});
}

/// Without a cut, the model says where so many stages begin.
PipelineStrategyOptions stages_of_model(int stages) {
  return {.stages = stages,
          .micro_batches = kMicroBatches,
          .allow_oversubscription = true,
          .seed = kPipelineSeed,
          .timeout = std::chrono::seconds(60)};
}

PipelineStrategyOptions cut_at(std::vector<std::string> layers) {
  PipelineStrategyOptions options = stages_of_model(0);
  options.cut = std::move(layers);
  return options;
}

const std::vector<std::int64_t> kMnistImage = {1, 28, 28};

/// `make(strategy)` creates the model.
template <class Make>
void expect_bits_and_checkpoints_of_one_device(
    const PipelineStrategyOptions& options, const Make& make,
    const std::vector<std::int64_t>& shape = kMnistImage) {
  OneDeviceStrategy unbroken_one = one_device();
  PipedTraining unbroken(unbroken_one, make(unbroken_one), shape);
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
    PipedTraining first(one, make(one), shape);
    first.steps(2);
    first.save(of_one);
    PipelineStrategy pipe(options);
    PipedTraining piped(pipe, make(pipe), shape);
    piped.steps(2);
    piped.save(of_pipeline);
    EXPECT_EQ(pipe.passes(),
              concurrency::stage_orders(PipelineSchedule::k1F1B, pipe.num_stages(), kMicroBatches));
    piped.steps(2);
    check(piped, "");
  }
  PipelineStrategy pipe(options);
  PipedTraining piped(pipe, make(pipe), shape);
  piped.restore(of_one);
  piped.steps(2);
  check(piped, "a pipeline that continues one device's training");
  OneDeviceStrategy one = one_device();
  PipedTraining second(one, make(one), shape);
  second.restore(of_pipeline);
  second.steps(2);
  check(second, "one device that continues a pipeline's training");
}

template <class Make>
void expect_bits_and_checkpoints_of_one_device(
    std::vector<std::string> cut, const Make& make,
    const std::vector<std::int64_t>& shape = kMnistImage) {
  expect_bits_and_checkpoints_of_one_device(cut_at(std::move(cut)), make, shape);
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

/// One module a stage; on one device a sequence of the same modules.
TEST(PipelineTraining, AModuleForEachStage) {
  const auto front = [] {
    auto net = std::make_shared<layers::LayerSequence>();
    net->push_back(torch::nn::Flatten());
    net->push_back("dense", torch::nn::Linear(784, 9));
    return net;
  };
  const auto middle = [] {
    auto net = std::make_shared<layers::LayerSequence>();
    net->push_back(torch::nn::Tanh());
    net->push_back(torch::nn::Dropout(0.2));
    return net;
  };
  const auto back = [] { return std::make_shared<torch::nn::LinearImpl>(9, 10); };
  expect_bits_and_checkpoints_of_one_device(stages_of_model(3), [&](auto& strategy) {
    if constexpr (std::is_same_v<decltype(strategy), PipelineStrategy&>) {
      return strategy.stages(front, middle, back);
    } else {
      return strategy.create([=] {
        auto net = std::make_shared<layers::LayerSequence>();
        net->push_back(front());
        net->push_back(middle());
        net->push_back(back());
        return net;
      });
    }
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

/// A model of the registry that is a function of layers.
auto maker_of(const std::string& name, const std::vector<std::int64_t>& shape) {
  return [name, shape](Strategy& strategy) {
    auto none = shape;
    none.insert(none.begin(), 0);
    return strategy.create(
        models::make_model_function(
            name, {.inputs = c10::multiply_integers(shape), .classes = 10, .image_shape = shape}),
        at::zeros(none));
  };
}

TEST(PipelineTraining, ResNet20InTwoThreeAndFourStages) {
  const std::vector<std::int64_t> shape = {3, 8, 8};
  for (const std::vector<std::string>& cut :
       std::vector<std::vector<std::string>>{{"block2/unit_1"},
                                             {"block1/unit_2", "block3/unit_1"},
                                             {"block1/unit_3", "block2/unit_3", "logits"}}) {
    SCOPED_TRACE(cut.size() + 1);
    expect_bits_and_checkpoints_of_one_device(cut, maker_of("cifar_resnet20", shape), shape);
  }
}

TEST(PipelineTraining, ASlimFunction) {
  expect_bits_and_checkpoints_of_one_device({"fc1"}, maker_of("slim_net", kMnistImage));
}

/// As in programs with a device scope for each part of the model.
at::Tensor function_in_scopes(const at::Tensor& images, variables::Mode mode) {
  at::Tensor net = images;
  {
    const auto device = device::with_device("cpu:0");
    net = layers::conv2d(net, 3, 5);
    net = layers::max_pool2d(net, 2);
  }
  {
    const auto device = device::with_device("/device:CPU:1");
    net = layers::batch_norm(net, {.mode = mode});
    net = layers::flatten(net);
    net = layers::dropout(net, {.keep_prob = 0.7, .mode = mode});
  }
  const auto device = device::with_device("cpu:2");
  return layers::fully_connected(net, 10, {.activation = nullptr});
}

TEST(PipelineTraining, ASlimFunctionInDeviceScopes) {
  expect_bits_and_checkpoints_of_one_device(stages_of_model(3), [](Strategy& strategy) {
    return strategy.create(function_in_scopes, at::zeros({1, 1, 28, 28}));
  });
  expect_bits_and_checkpoints_of_one_device(stages_of_model(3), [](Strategy& strategy) {
    return strategy.create([] {
      return std::make_shared<models::FunctionClassifier>("in_scopes", function_in_scopes,
                                                          at::zeros({0, 1, 28, 28}));
    });
  });
}

/// Its blocks are computed again in backward.
at::Tensor function_that_recomputes(const at::Tensor& images, variables::Mode mode) {
  const auto block = [&](const char* name) {
    return [=](const at::Tensor& x) {
      const auto scope = variables::variable_scope(name);
      const at::Tensor net = layers::batch_norm(layers::conv2d(x, 3, 3), {.mode = mode});
      return layers::dropout(net, {.keep_prob = 0.7, .mode = mode});
    };
  };
  at::Tensor net = layers::recompute(block("first"), comm::begin_layer("first", images));
  net = layers::recompute(block("second"), comm::begin_layer("second", net));
  net = layers::flatten(comm::begin_layer("logits", net));
  return layers::fully_connected(net, 10, {.activation = nullptr});
}

TEST(PipelineTraining, AModuleOfAFunctionWithRecomputedActivations) {
  expect_bits_and_checkpoints_of_one_device({"second", "logits"}, [](Strategy& strategy) {
    return strategy.create([] {
      return std::make_shared<models::FunctionClassifier>("recomputes", function_that_recomputes,
                                                          at::zeros({0, 1, 28, 28}));
    });
  });
}

/// `make_model` makes modules of functions: each replica has variables of its own store.
TEST(PipelineTraining, AModuleOfAFunction) {
  expect_bits_and_checkpoints_of_one_device(
      {"block1/unit_3", "block3/unit_2"},
      [](Strategy& strategy) {
        return strategy.create([] {
          return models::make_model("cifar_resnet20",
                                    {.inputs = 192, .classes = 10, .image_shape = {3, 8, 8}});
        });
      },
      {3, 8, 8});
}

using LayerNames = std::vector<std::string>;

LayerNames layers_of_model(const std::string& name, std::vector<std::int64_t> shape) {
  const at::NoGradGuard no_gradients;
  const auto model = models::make_model(
      name, {.inputs = c10::multiply_integers(shape), .classes = 10, .image_shape = shape});
  model->eval();
  shape.insert(shape.begin(), 0);
  return comm::announced_layers([&] { model->forward(at::zeros(shape)); });
}

TEST(ModelLayers, EveryModelOfTheRegistryCanBeCut) {
  EXPECT_EQ(layers_of_model("mnist_cnn", kMnistImage),
            (LayerNames{"conv1", "conv2", "dense1", "dense2"}));
  EXPECT_EQ(layers_of_model("slim_net", kMnistImage), (LayerNames{"conv1", "fc1", "fc2"}));
  EXPECT_EQ(layers_of_model("cifar_resnet20", {3, 8, 8}),
            (LayerNames{"conv1", "block1/unit_1", "block1/unit_2", "block1/unit_3", "block2/unit_1",
                        "block2/unit_2", "block2/unit_3", "block3/unit_1", "block3/unit_2",
                        "block3/unit_3", "logits"}));
  EXPECT_EQ(
      layers_of_model("resnet18", {3, 32, 32}),
      (LayerNames{"conv1", "block1/unit_1", "block1/unit_2", "block2/unit_1", "block2/unit_2",
                  "block3/unit_1", "block3/unit_2", "block4/unit_1", "block4/unit_2", "logits"}));
  const LayerNames inception = layers_of_model("inception_v3", {3, 75, 75});
  ASSERT_EQ(inception.size(), 19U);
  EXPECT_EQ(inception.front(), "Conv2d_1a_3x3");
  EXPECT_EQ(inception.back(), "Logits");
  EXPECT_EQ(layers_of_model("resnet50", {3, 32, 32}).size(), 18U);
  for (const std::string& name : models::model_names()) {
    if (name.starts_with("resnet1") || name.starts_with("resnet5") || name == "inception_v3")
      continue;  // large, and cut as resnet18
    EXPECT_GE(layers_of_model(name, models::image_shape(name)).size(), 3U) << name;
  }
}

}  // namespace
}  // namespace brigade::distribute
