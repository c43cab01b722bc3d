#include "brigade/slim/assign_from_checkpoint.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/tf_bundle.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/slim/layers.h"
#include "brigade/train/testing/small_session.h"

namespace brigade::slim {
namespace {

using distribute::cpus;
using distribute::error_from;
using distribute::mentions;
using variables::Variable;

/// Variables net/conv/weights, net/conv/biases and net/logits/weights, zeros, on two replicas; and
/// a checkpoint whose values are 1, 2, 3.
class AssignFromCheckpoint : public testing::Test {
 protected:
  AssignFromCheckpoint() : scope_(strategy_.scope()) {
    make("net/conv/weights", {2, 3});
    make("net/conv/biases", {3});
    make("net/logits/weights", {4});
    options_.files = files_;
  }

  Variable make(const std::string& name, const std::vector<std::int64_t>& shape) {
    return model_variable(name, shape, {.initializer = variables::zeros_initializer()});
  }

  /// Saves the variables with their numbers as values, and sets them to zero again.
  void save() {
    double number = 0;
    for (const Variable& each : all()) each.assign(at::full(each.shape(), ++number));
    checkpoint::Saver(files_, {.directory = "/run"}).save(5, {.variables = all()});
    for (const Variable& each : all()) each.assign(at::zeros(each.shape()));
  }

  std::vector<Variable> all() const { return get_model_variables(); }
  /// The first elements.
  std::vector<double> values() const {
    std::vector<double> firsts;
    for (const Variable& each : all()) firsts.push_back(each.read().flatten()[0].item<double>());
    return firsts;
  }
  using Values = std::vector<double>;

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  distribute::MirroredStrategy strategy_{cpus(2)};
  decltype(strategy_.scope()) scope_;
  AssignOptions options_;
};

TEST_F(AssignFromCheckpoint, AcceptsADirectoryACheckpointAndAFile) {
  save();
  assign_from_checkpoint("/run", all(), options_);
  EXPECT_EQ(values(), (Values{1, 2, 3}));
  for (const Variable& each : all()) each.assign(at::zeros(each.shape()));
  assign_from_checkpoint("/run/ckpt-5", all(), options_);
  EXPECT_EQ(values(), (Values{1, 2, 3}));
  const std::vector<checkpoint::NamedTensor> file = {{"net/conv/biases", at::full({3}, 9.0f)}};
  checkpoint::save_safetensors(*files_, "/biases.safetensors", file);
  assign_from_checkpoint("/biases.safetensors", get_model_variables("net/conv/biases"), options_);
  EXPECT_EQ(values(), (Values{1, 9, 3}));
}

TEST_F(AssignFromCheckpoint, RefusesAFileWithAlteredWeights) {
  const std::vector<checkpoint::NamedTensor> file = {{"net/conv/biases", at::full({3}, 9.0f)}};
  checkpoint::save_safetensors(*files_, "/altered.safetensors", file,
                               {{std::string(checkpoint::kWeightsHashKey), "of others"}});
  const auto biases = get_model_variables("net/conv/biases");
  const Error error =
      error_from([&] { assign_from_checkpoint("/altered.safetensors", biases, options_); });
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_TRUE(mentions(error, "/altered.safetensors"));
  EXPECT_TRUE(mentions(error, "of others"));
  EXPECT_EQ(values(), (Values{0, 0, 0}));
  options_.hash_mismatch = checkpoint::HashMismatch::kAllow;
  assign_from_checkpoint("/altered.safetensors", biases, options_);
  EXPECT_EQ(values(), (Values{0, 9, 0}));
}

TEST_F(AssignFromCheckpoint, AssignsOnlyIncludedAndNotExcludedVariables) {
  save();
  const std::vector<std::string> include = {"net"}, exclude = {"net/logits", "net/conv/biases"};
  assign_from_checkpoint("/run", get_variables_to_restore(include, exclude), options_);
  EXPECT_EQ(values(), (Values{1, 0, 0}));
}

TEST_F(AssignFromCheckpoint, AcceptsNamesOfTheCheckpoint) {
  save();
  assign_from_checkpoint("/run",
                         VariablesByName{{"net/conv/biases", make("other/biases", {3})},
                                         {"net/logits/weights", all()[2]}},
                         options_);
  EXPECT_EQ(values(), (Values{0, 0, 3, 2}));
}

TEST_F(AssignFromCheckpoint, AMissingVariableIsAnErrorOrKeepsItsValue) {
  save();
  make("net/new/weights", {2}).assign(at::full({2}, 8.0));
  const Error error = error_from([&] { assign_from_checkpoint("/run", all(), options_); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_TRUE(mentions(error, "Checkpoint is missing variable [net/new/weights]"));
  EXPECT_EQ(values(), (Values{0, 0, 0, 8})) << "nothing is assigned";

  const train::CapturedLog log;
  options_.ignore_missing_vars = true;
  const auto report = assign_from_checkpoint("/run", all(), options_);
  EXPECT_EQ(values(), (Values{1, 2, 3, 8}));
  EXPECT_EQ(report.missing_in_checkpoint, std::vector<std::string>{"net/new/weights"});
  EXPECT_TRUE(log.has("Checkpoint is missing variable [net/new/weights]"));
}

TEST_F(AssignFromCheckpoint, ReshapesOnlyIfConfigured) {
  save();
  const VariablesByName flat = {{"net/conv/weights", make("flat", {6})}};
  EXPECT_EQ(error_from([&] { assign_from_checkpoint("/run", flat, options_); }).code(),
            ErrorCode::kInvalidArgument);
  options_.reshape_variables = true;
  assign_from_checkpoint("/run", flat, options_);
  EXPECT_EQ(values().back(), 1);
}

TEST_F(AssignFromCheckpoint, RefusesEmptyListsAndPathsWithoutFiles) {
  save();
  const auto code_of = [](const std::function<void()>& call) { return error_from(call).code(); };
  EXPECT_EQ(code_of([&] { assign_from_checkpoint("/run", std::vector<Variable>(), options_); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { assign_from_checkpoint_fn("/run", VariablesByName(), options_); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { assign_from_checkpoint("/nowhere", all(), options_); }),
            ErrorCode::kNotFound);
  files_->create_directories("/empty");
  EXPECT_EQ(code_of([&] { assign_from_checkpoint("/empty", all(), options_); }),
            ErrorCode::kNotFound);
}

TEST_F(AssignFromCheckpoint, TheFunctionAssignsWhenItIsCalled) {
  save();
  const InitFunction assign = assign_from_checkpoint_fn("/run", all(), options_);
  EXPECT_EQ(values(), (Values{0, 0, 0}));
  train::TrainingState state(strategy_);
  assign(state);
  EXPECT_EQ(values(), (Values{1, 2, 3}));
}

TEST_F(AssignFromCheckpoint, ReturnsNoFunctionIfNoVariableIsFound) {
  save();
  const train::CapturedLog log;
  options_.ignore_missing_vars = true;
  const std::vector<Variable> unknown = {make("unknown", {1})};
  EXPECT_FALSE(assign_from_checkpoint_fn("/run", unknown, options_));
  EXPECT_TRUE(log.has("no variables to restore"));
  EXPECT_TRUE(assign_from_checkpoint_fn("/run", all(), options_));
  EXPECT_FALSE(assign_from_checkpoint_fn("/run", VariablesByName{{"x", all()[0]}}, options_));
}

TEST_F(AssignFromCheckpoint, AssignsOnlyInTheScopesOfTheOptions) {
  save();
  options_.include = {"net"};
  options_.exclude = {"net/logits", "net/conv/biases"};
  const auto report = assign_from_checkpoint("/run", all(), options_);
  EXPECT_EQ(values(), (Values{1, 0, 0}));
  EXPECT_EQ(report.restored.size(), 1u);
  options_.exclude = {"net/convolution"};
  EXPECT_TRUE(mentions(error_from([&] { assign_from_checkpoint("/run", all(), options_); }),
                       "no variable is in the scope 'net/convolution'"));
}

/// The model that checkpoint/testing/make_tf_bundles.py builds with TF-Slim ("layouts"): every kind
/// of layer whose weights TensorFlow lays out in another way.
at::Tensor tensorflows_model(const at::Tensor& images) {
  at::Tensor net = slim::conv2d(images, 4, {3, 2}, {.activation = nullptr, .scope = "conv"});
  net =
      slim::separable_conv2d(net, std::nullopt, {2, 3},
                             {.depth_multiplier = 2, .activation = nullptr, .scope = "depthwise"});
  net = slim::separable_conv2d(net, 4, {3, 3}, {.activation = nullptr, .scope = "separable"});
  net = slim::flatten(slim::max_pool2d(net, 2, {.scope = "pool"}));
  net = slim::fully_connected(net, 5, {.activation = nullptr, .scope = "first"});
  return slim::fully_connected(net, 5, {.activation = nullptr, .scope = "square"});
}

class AssignFromTensorFlow : public testing::Test {
 protected:
  AssignFromTensorFlow() : scope_(strategy_.scope()) {}

  at::Tensor output_with(const AssignOptions& options) {
    const auto bundle = checkpoint::TfBundle::open(io::posix_file_system(), path_);
    const at::Tensor images = bundle.read("input");
    tensorflows_model(images);  // makes the variables
    const auto report = assign_from_checkpoint(path_, get_model_variables(), options);
    EXPECT_EQ(report.restored.size(), 11u);
    EXPECT_EQ(report.unused_in_checkpoint, (std::vector<std::string>{"input", "output"}));
    expected_ = bundle.read("output");
    const auto reused = variable_scope("", {.reuse = Reuse::kYes});
    return tensorflows_model(images);
  }

  const io::Path path_ = io::Path(BRIGADE_CHECKPOINT_TEST_DATA) / "tf/layouts";
  distribute::MirroredStrategy strategy_{cpus(1)};
  decltype(strategy_.scope()) scope_;
  at::Tensor expected_;
};

TEST_F(AssignFromTensorFlow, AModelGivesTensorFlowsOutput) {
  const at::Tensor output =
      output_with({.flattened = {{"first/weights", {.channels = 4, .height = 3, .width = 2}}}});
  EXPECT_TRUE(at::allclose(output, expected_, 1e-5, 1e-3)) << output << expected_;
}

// What the header says: without the option the first dense layer sums other pixels.
TEST_F(AssignFromTensorFlow, OnlyTheOptionGivesTheOrderAfterAFlattenedImage) {
  EXPECT_FALSE(at::allclose(output_with({}), expected_, 1e-5, 1e-3));
}

TEST_F(AssignFromTensorFlow, AFunctionIsReturnedForNamesOfObjects) {
  const io::Path objects = io::Path(BRIGADE_CHECKPOINT_TEST_DATA) / "tf/objects.index";
  const Variable step = variable("step", std::vector<std::int64_t>{}, {.dtype = at::kLong});
  const InitFunction assign = assign_from_checkpoint_fn(objects, std::vector<Variable>{step},
                                                        {.ignore_missing_vars = true});
  ASSERT_TRUE(assign);
  train::TrainingState state(strategy_);
  assign(state);
  EXPECT_EQ(step.read().item<std::int64_t>(), 7);
}

}  // namespace
}  // namespace brigade::slim
