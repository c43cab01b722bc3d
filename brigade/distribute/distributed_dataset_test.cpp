#include "brigade/distribute/distributed_dataset.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;
using Shares = std::vector<Numbers>;  // [replica]

data::Dataset<at::Tensor> numbers_to(std::int64_t count) {
  return input::from_tensor_slices(at::arange(count));
}

Numbers numbers_of(const at::Tensor& tensor) {
  const std::int64_t* first = tensor.const_data_ptr<std::int64_t>();
  return {first, first + tensor.numel()};
}

Shares shares_of(const PerReplica<at::Tensor>& batch) {
  Shares shares;
  for (const at::Tensor& share : batch.values()) shares.push_back(numbers_of(share.contiguous()));
  return shares;
}

std::vector<Shares> all_shares(const DistributedDataset<at::Tensor>& dataset) {
  std::vector<Shares> all;
  for (const auto& batch : dataset) all.push_back(shares_of(batch));
  return all;
}

DistributedDataset<at::Tensor> distributed(const data::Dataset<at::Tensor>& batches, int replicas,
                                           BatchKind kind = BatchKind::kGlobal,
                                           std::uint64_t seed = 3) {
  return {batches,
          std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU)),
          seed, kind};
}

TEST(DistributedDataset, GlobalBatchesAreCutByTheBalancedRule) {
  EXPECT_EQ(all_shares(distributed(numbers_to(10).batch(4), 2)),
            (std::vector<Shares>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {9}}}));
  EXPECT_EQ(all_shares(distributed(numbers_to(10).batch(4), 3)),
            (std::vector<Shares>{{{0, 1}, {2}, {3}}, {{4, 5}, {6}, {7}}, {{8}, {9}, {}}}));
  EXPECT_EQ(all_shares(distributed(numbers_to(9).batch(4), 2)),
            (std::vector<Shares>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {}}}));
  EXPECT_EQ(all_shares(distributed(numbers_to(2).batch(2), 4)),
            (std::vector<Shares>{{{0}, {1}, {}, {}}}));
}

TEST(DistributedDataset, BatchesKnowTheirExamples) {
  auto iterator = distributed(numbers_to(5).batch(5), 3).iterator();
  const auto batch = iterator.next();
  EXPECT_EQ(batch->examples()->local, Numbers({2, 2, 1}));
  EXPECT_EQ(batch->examples()->global, 5);
  EXPECT_FALSE(iterator.next().has_value());
  EXPECT_FALSE(iterator.next().has_value()) << "the end stays the end";
}

TEST(DistributedDataset, AnEmptyShareKeepsDtypeAndShape) {
  const auto images = input::from_tensor_slices(at::zeros({1, 4, 3}, at::kDouble)).batch(8);
  for (const auto& batch : distributed(images, 2)) {
    EXPECT_EQ(batch[1].sizes(), at::IntArrayRef({0, 4, 3}));
    EXPECT_EQ(batch[1].scalar_type(), at::kDouble);
  }
}

TEST(DistributedDataset, PerReplicaBatchesAreTakenInTurns) {
  EXPECT_EQ(all_shares(distributed(numbers_to(10).batch(2), 2, BatchKind::kPerReplica)),
            (std::vector<Shares>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8, 9}, {}}}));
}

TEST(DistributedDataset, CountsItsGlobalBatches) {
  EXPECT_EQ(distributed(numbers_to(10).batch(4), 2).cardinality(), 3);
  EXPECT_EQ(distributed(numbers_to(10).batch(2), 2, BatchKind::kPerReplica).cardinality(), 3);
  EXPECT_EQ(distributed(numbers_to(10).batch(2).repeat(), 2, BatchKind::kPerReplica).cardinality(),
            data::kInfinite);
}

TEST(DistributedDataset, EachLoopIsANewEpoch) {
  const auto dataset = distributed(numbers_to(50).shuffle(50).batch(8), 2);
  const auto first = all_shares(dataset);
  const auto second = all_shares(dataset);
  EXPECT_NE(first, second);
  Numbers seen(50, 0);
  for (const Shares& shares : second) {
    for (const Numbers& share : shares) {
      for (const std::int64_t number : share) ++seen[number];
    }
  }
  EXPECT_EQ(seen, Numbers(50, 1)) << "every example of an epoch comes once";
  EXPECT_EQ(dataset.iterator().epoch(), 2u);
}

TEST(DistributedDataset, TheOrderDependsOnTheSeedAloneAndNotOnTheReplicas) {
  const auto batches = numbers_to(50).shuffle(50).batch(8);
  EXPECT_EQ(all_shares(distributed(batches, 2)), all_shares(distributed(batches, 2)));
  EXPECT_NE(all_shares(distributed(batches, 2)),
            all_shares(distributed(batches, 2, BatchKind::kGlobal, 4)));
  const auto two = distributed(batches, 2).iterator().next();
  const auto three = distributed(batches, 3).iterator().next();
  EXPECT_EQ(at::cat(two->values()).equal(at::cat(three->values())), true);
}

TEST(DistributedDataset, LeavingALoopEarlyLeavesNoThread) {
  const std::ptrdiff_t before = threads_of_this_process();
  const auto dataset =
      distributed(numbers_to(1'000)
                      .map([](const at::Tensor& number) { return number + 1; }, {.parallelism = 2})
                      .batch(4)
                      .prefetch(2),
                  2);
  for (const auto& batch : dataset) {
    EXPECT_EQ(shares_of(batch), (Shares{{1, 2}, {3, 4}}));
    EXPECT_FALSE(threads_of_this_process() <= before) << "nothing works ahead";
    break;
  }
  EXPECT_TRUE(threads_go_down_to(before));
}

TEST(DistributedDataset, ResumesExactlyInMidEpoch) {
  const auto batches = numbers_to(60).shuffle(20).batch(7).prefetch(2);
  const auto dataset = distributed(batches, 3);
  auto iterator = dataset.iterator();
  iterator.start_next_epoch();
  for (int i = 0; i < 3; ++i) iterator.next();
  const io::StateTree state = iterator.save();
  std::vector<Shares> rest;
  while (auto batch = iterator.next()) rest.push_back(shares_of(*batch));
  EXPECT_EQ(rest.size(), 6u);

  auto resumed = distributed(batches, 3, BatchKind::kGlobal, /*seed=*/99).iterator();
  resumed.restore(state);
  EXPECT_EQ(resumed.epoch(), 1u);
  for (const Shares& expected : rest) EXPECT_EQ(shares_of(*resumed.next()), expected);
  EXPECT_FALSE(resumed.next().has_value());
}

TEST(DistributedDataset, PerReplicaBatchesResumeToo) {
  const auto dataset = distributed(numbers_to(20).batch(2), 2, BatchKind::kPerReplica);
  auto iterator = dataset.iterator();
  iterator.next();
  auto resumed = dataset.iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(shares_of(*resumed.next()), (Shares{{4, 5}, {6, 7}}));
}

TEST(DistributedDataset, AStrategysDatasetIsCutForItsReplicas) {
  const MirroredStrategy strategy(cpus(2));
  EXPECT_EQ(all_shares(strategy.distribute(numbers_to(3).batch(3))),
            (std::vector<Shares>{{{0, 1}, {2}}}));
  const auto from_function = strategy.distribute_from_function([](const InputContext& context) {
    EXPECT_EQ(context.num_replicas_in_sync, 2);
    EXPECT_EQ(context.num_input_pipelines, 1);
    return numbers_to(8).batch(context.get_per_replica_batch_size(4));
  });
  EXPECT_EQ(all_shares(from_function), (std::vector<Shares>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}));
  EXPECT_EQ(error_from([&] {
              strategy.distribute_from_function([](const InputContext& context) {
                return numbers_to(8).batch(context.get_per_replica_batch_size(3));
              });
            }).code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::distribute
