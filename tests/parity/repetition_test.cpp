// The bits of a training result depend on seed, data and layout, never on timing.
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <string>
#include <vector>

#include "brigade/checkpoint/weights_hash.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/image_tensor.h"
#include "brigade/layers/losses.h"
#include "brigade/optim/adam.h"
#include "tests/parity/examples.h"

namespace brigade::parity {
namespace {

using distribute::MirroredStrategy;
using distribute::ReplicaContext;

struct Dropped : torch::nn::Module {
  Dropped() {
    first = register_module("first", torch::nn::Linear(784, 32));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
    second = register_module("second", torch::nn::Linear(32, 10));
  }
  at::Tensor forward(const at::Tensor& images) {
    return second(dropout(first(images.flatten(1)).relu()));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

/// The weights' hash after two epochs with dropout, shuffling, and random crops in parallel maps.
std::string hash_after_training(distribute::Strategy& strategy, std::int64_t parallelism,
                                int accumulate = 1) {
  const auto model = strategy.create<Dropped>();
  const auto adam = strategy.optimizer(model, optim::Adam{}, {.accumulate = accumulate});
  const auto images = examples(60)
                          .shuffle(40)
                          .map(
                              [](input::LabeledExample example, data::ElementContext& context) {
                                example.features =
                                    input::random_crop(example.features, {.padding = 2}, context);
                                return example;
                              },
                              {.parallelism = parallelism})
                          .batch(14)
                          .prefetch(2);
  const auto batches = strategy.distribute(images);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const auto& batch : batches) {
      strategy.run(
          [&](ReplicaContext&, const input::LabeledBatch& local_batch) {
            adam.minimize(layers::losses::sparse_softmax_cross_entropy(model(local_batch.features),
                                                                       local_batch.labels));
          },
          batch);
    }
  }
  std::vector<checkpoint::NamedTensor> weights;
  for (const auto& variable : model.variables())
    weights.push_back({variable.name(), variable.read()});
  return checkpoint::weights_sha256(weights);
}

std::string hash_after_training(int replicas, std::uint64_t seed, std::int64_t parallelism) {
  MirroredStrategy strategy(distribute::cpus(replicas, seed));
  return hash_after_training(strategy, parallelism);
}

TEST(Repetition, DropoutCropsAndParallelMapsGiveTheSameBits) {
  const std::string first = hash_after_training(2, 1, 2);
  for (const std::int64_t parallelism : {2, 1, 3})
    EXPECT_EQ(hash_after_training(2, 1, parallelism), first) << parallelism << " map threads";
}

TEST(Repetition, AlsoIfReplicasShareCores) {
  EXPECT_EQ(hash_after_training(4, 1, 2), hash_after_training(4, 1, 2));
}

TEST(Repetition, CentralStorageGivesTheBitsOfMirroredOnCpu) {
  const std::string expected = hash_after_training(3, 1, 2);
  for (const auto caching : {variables::Caching::kWhereNeeded, variables::Caching::kAlways}) {
    for (int run = 0; run < 2; ++run) {
      distribute::CentralStorageStrategy strategy(distribute::central_cpus(3, caching, 1));
      EXPECT_EQ(hash_after_training(strategy, 2), expected);
    }
  }
}

TEST(Repetition, AccumulationGivesTheSameBits) {
  const auto accumulated = [] {
    MirroredStrategy strategy(distribute::cpus(2, 1));
    return hash_after_training(strategy, 2, 3);
  };
  const std::string first = accumulated();
  EXPECT_EQ(accumulated(), first);
  EXPECT_NE(hash_after_training(2, 1, 2), first);
}

TEST(Repetition, AnotherSeedOrLayoutGivesOtherBits) {
  EXPECT_NE(hash_after_training(2, 1, 2), hash_after_training(2, 2, 2));
  EXPECT_NE(hash_after_training(2, 1, 2), hash_after_training(3, 1, 2));
}

}  // namespace
}  // namespace brigade::parity
