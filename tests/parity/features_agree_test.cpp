// Features of the registry's models are those of a direct forward pass, on any number of replicas
// and under any strategy that evaluates.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "brigade/checkpoint/safetensors.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/synthetic.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/layers/end_points.h"
#include "brigade/models/registry.h"
#include "brigade/train/evaluation/feature_extraction.h"

namespace brigade::parity {
namespace {

using checkpoint::SafetensorsFile;
using distribute::Strategy;

struct FeatureCase {
  const char* model;
  const char* end_point;
};

constexpr std::array<FeatureCase, 4> kCases{{{"cifar_resnet20", "global_pool"},
                                             {"mlp", "dense3"},
                                             {"mnist_cnn", "dense1"},
                                             {"slim_net", "pool1"}}};
constexpr std::int64_t kImages = 5;  // in batches of 2: 2, 2 and 1

data::Dataset<input::LabeledExample> images_for(const FeatureCase& of) {
  return input::synthetic(kImages, models::image_shape(of.model), 10);
}

/// Calls `use` with the model, made in `strategy`.
template <class Use>
auto with_model(Strategy& strategy, const FeatureCase& of, const Use& use) {
  const models::ModelOptions options{.end_points = {of.end_point}};
  auto shape = models::image_shape(of.model);
  shape.insert(shape.begin(), 1);
  if (models::is_model_function(of.model))
    return use(strategy.create(models::make_model_function(of.model, options), at::zeros(shape)));
  return use(strategy.create([&] { return models::make_model(of.model, options); }));
}

void write_features(Strategy& strategy, const FeatureCase& of,
                    const std::shared_ptr<io::FileSystem>& files) {
  with_model(strategy, of, [&](const auto& model) {
    return train::extract_features(strategy, model, images_for(of).batch(2),
                                   {.path = "/f", .files = files});
  });
}

SafetensorsFile features(Strategy& strategy, const FeatureCase& of) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  write_features(strategy, of, files);
  return checkpoint::read_safetensors(*files, "/f");
}

/// Of one forward pass.
at::Tensor direct_features(const FeatureCase& of, const at::Tensor& images) {
  distribute::MirroredStrategy strategy(distribute::cpus(1, 3));
  return with_model(strategy, of, [&](const auto& model) {
    const at::NoGradGuard no_grad;
    model.eval();
    return strategy.run([&] {
      model(images);
      return layers::end_points(layers::kEndPoints).at(of.end_point).clone();
    })[0];
  });
}

TEST(Features, AreThoseOfADirectForwardPassUnderAnyStrategy) {
  for (const FeatureCase& of : kCases) {
    SCOPED_TRACE(of.model);
    const auto batch = images_for(of).batch(kImages).iterator().next().value();
    const at::Tensor direct = direct_features(of, batch.features);
    distribute::MirroredStrategy one(distribute::cpus(1, 3));
    distribute::MirroredStrategy two(distribute::cpus(2, 3));
    distribute::CentralStorageStrategy central(
        distribute::central_cpus(2, variables::Caching::kAlways, 3));
    for (Strategy* strategy : std::vector<Strategy*>{&one, &two, &central}) {
      const SafetensorsFile file = features(*strategy, of);
      EXPECT_TRUE(at::allclose(file.at(of.end_point), direct, 1e-5, 1e-6)) << strategy->name();
      EXPECT_TRUE(at::equal(file.at("labels"), batch.labels)) << strategy->name();
    }
  }
}

TEST(Features, AreTheSameOnSeveralWorkersOfWhichTheChiefWrites) {
  const FeatureCase of{"slim_net", "fc1"};
  distribute::MirroredStrategy one(distribute::cpus(1));
  const SafetensorsFile expected = features(one, of);
  const auto files = std::make_shared<io::MemoryFileSystem>();
  distribute::run_workers({2, 1}, [&](distribute::MultiWorkerMirroredStrategy& strategy) {
    write_features(strategy, of, files);
  });
  EXPECT_EQ(files->list("/"), std::vector<std::string>{"f"});
  const SafetensorsFile found = checkpoint::read_safetensors(*files, "/f");
  EXPECT_TRUE(at::allclose(found.at("fc1"), expected.at("fc1"), 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(found.at("labels"), expected.at("labels")));
}

}  // namespace
}  // namespace brigade::parity
