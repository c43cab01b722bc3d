#include "brigade/train/evaluation/feature_extraction.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/safetensors_rows.h"
#include "brigade/input/synthetic.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/end_points.h"
#include "brigade/layers/normalization.h"

namespace brigade::train {
namespace {

using checkpoint::SafetensorsFile;
using distribute::cpus;
using distribute::error_from;
using distribute::MirroredStrategy;

/// Images [N, 1, 6, 6] through "conv", batch norm and dropout to "fc".
at::Tensor small_net(const at::Tensor& images, variables::Mode mode) {
  const auto modes = layers::arg_scope<layers::batch_norm, layers::dropout>({.mode = mode});
  const auto ends = layers::arg_scope<layers::conv2d, layers::fully_connected>(
      {.outputs_collections = {layers::kEndPoints}});
  at::Tensor net = layers::batch_norm(layers::conv2d(images, 4, 3, {.scope = "conv"}));
  net = layers::flatten(layers::dropout(net, {.keep_prob = 0.5}));
  return layers::fully_connected(net, 3, {.scope = "fc"});
}

data::Dataset<input::LabeledExample> images(std::int64_t count) {
  return input::synthetic(count, {1, 6, 6}, 3);
}

struct Extracted {
  SafetensorsFile file;
  ExtractionReport report;
};

/// Of 7 images, in batches of 3: the last is smaller.
Extracted extracted(int replicas, ExtractionOptions options = {}) {
  MirroredStrategy strategy(cpus(replicas, 5));
  const auto model = strategy.create(small_net, at::zeros({1, 1, 6, 6}));
  options.files = std::make_shared<io::MemoryFileSystem>();
  options.path = "/features";
  ExtractionReport report = extract_features(strategy, model, images(7).batch(3), options);
  return {checkpoint::read_safetensors(*options.files, "/features"), std::move(report)};
}

TEST(FeatureExtraction, HasTheRowsOfADirectForwardPassAndTheLabels) {
  MirroredStrategy strategy(cpus(1, 5));
  const auto model = strategy.create(small_net, at::zeros({1, 1, 6, 6}));
  const auto all = images(7).batch(7).iterator().next().value();
  model.eval();
  const at::NoGradGuard no_grad;
  const auto direct = strategy.run([&] {
    const at::Tensor logits = model(all.features);
    return std::vector{layers::end_points(layers::kEndPoints).at("conv"), logits};
  })[0];
  const Extracted result = extracted(1);
  EXPECT_EQ(result.report.examples, 7);
  EXPECT_TRUE(at::allclose(result.file.at("conv"), direct[0], 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(result.file.at("fc"), direct[1], 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(result.file.at("labels"), all.labels));
  EXPECT_EQ(result.file.tensors.size(), 3U);
  EXPECT_EQ(result.file.metadata.at("end_points"), "conv,fc");
  EXPECT_EQ(result.file.metadata.at("global_pool"), "false");
}

TEST(FeatureExtraction, GivesTheSameRowsInTheSameOrderOnAnyNumberOfReplicas) {
  const Extracted one = extracted(1);
  for (const int replicas : {2, 4}) {  // of the last batch, of one image, most get nothing
    const Extracted many = extracted(replicas);
    EXPECT_EQ(many.report.examples, 7);
    for (const char* name : {"conv", "fc"})
      EXPECT_TRUE(at::allclose(many.file.at(name), one.file.at(name), 1e-5, 1e-6)) << name;
    EXPECT_TRUE(at::equal(many.file.at("labels"), one.file.at("labels")));
  }
}

TEST(FeatureExtraction, TakesTheNamedEndPointsAndTheirMeansOverPositions) {
  const Extracted all = extracted(1);
  const Extracted pooled =
      extracted(2, {.end_points = {"conv"}, .global_pool = true, .metadata = {{"model", "m"}}});
  EXPECT_EQ(pooled.file.tensors.size(), 2U);
  EXPECT_EQ(pooled.file.metadata.at("model"), "m");
  EXPECT_TRUE(at::allclose(pooled.file.at("conv"), all.file.at("conv").mean({2, 3}), 1e-5, 1e-6));
  ASSERT_EQ(pooled.report.tensors.size(), 2U);
  EXPECT_EQ(pooled.report.tensors[0].shape, (std::vector<std::int64_t>{7, 4}));
}

TEST(FeatureExtraction, WritesThePathsOfTheExamples) {
  const std::vector<std::string> paths = {"a/1.png", "a/2.png", "b/10.png", "b/\xC3\xBC.png",
                                          "c/1.png", "c/2.png", "c/3.png"};
  const at::Tensor rows = extracted(2, {.end_points = {"fc"}, .paths = paths}).file.at("paths");
  for (std::size_t i = 0; i < paths.size(); ++i) {
    std::string text;
    for (std::int64_t k = 0; k < rows.size(1); ++k)
      text += static_cast<char>(rows[static_cast<std::int64_t>(i)][k].item<std::uint8_t>());
    EXPECT_EQ(text.substr(0, text.find('\0')), paths[i]);
  }
}

TEST(FeatureExtraction, ChangesNoVariableAndTrainsNothing) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create(small_net, at::zeros({1, 1, 6, 6}));
  std::vector<at::Tensor> before;
  for (const auto& variable : model.variables()) before.push_back(variable.read().clone());
  const auto files = std::make_shared<io::MemoryFileSystem>();
  extract_features(strategy, model, images(8).batch(4), {.path = "/f", .files = files});
  ASSERT_EQ(model.variables().size(), before.size());
  EXPECT_GT(before.size(), 4U) << "with the statistics of batch norm";
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto& variable = model.variables()[i];
    EXPECT_TRUE(at::equal(variable.read(), before[i])) << variable.name();
    EXPECT_FALSE(variable.component(0).grad().defined()) << variable.name();
  }
  EXPECT_TRUE(model.replica(0).is_training()) << "back in training mode";
}

TEST(FeatureExtraction, MakesADatasetOfFeatures) {
  MirroredStrategy strategy(cpus(1));
  const auto model = strategy.create(small_net, at::zeros({1, 1, 6, 6}));
  const auto files = std::make_shared<io::MemoryFileSystem>();
  extract_features(strategy, model, images(5).batch(4), {.path = "/f", .files = files});
  std::int64_t index = 0;
  const SafetensorsFile whole = checkpoint::read_safetensors(*files, "/f");
  for (const auto& example : input::from_safetensors("/f", "fc", "labels", files)) {
    EXPECT_TRUE(at::equal(example.features, whole.at("fc")[index]));
    EXPECT_EQ(example.label, whole.at("labels")[index].item<std::int64_t>());
    ++index;
  }
  EXPECT_EQ(index, 5);
}

TEST(FeatureExtraction, RefusesWhatCannotBeExtractedAndLeavesNoFile) {
  const auto refused = [](const ExtractionOptions& options, std::int64_t count = 7) {
    MirroredStrategy strategy(cpus(2));
    const auto model = strategy.create(small_net, at::zeros({1, 1, 6, 6}));
    ExtractionOptions in_memory = options;
    in_memory.files = std::make_shared<io::MemoryFileSystem>();
    in_memory.path = "/features";
    const auto dataset = images(7).take(count).batch(3);
    const Error error = error_from([&] { extract_features(strategy, model, dataset, in_memory); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(in_memory.files->list("/").empty());
    return std::string(error.what());
  };
  const std::string unknown = refused({.end_points = {"cov"}});
  EXPECT_NE(unknown.find("did you mean 'conv'?"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("conv, fc"), std::string::npos) << unknown;
  EXPECT_NE(refused({.paths = {"a", "b"}}).find("2 paths"), std::string::npos);
  EXPECT_NE(refused({.paths = std::vector<std::string>(8, "a")}).find("8 paths for 7"),
            std::string::npos);
  EXPECT_NE(refused({}, 0).find("empty"), std::string::npos);
}

}  // namespace
}  // namespace brigade::train
