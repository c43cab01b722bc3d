#include "brigade/distribute/input/distributed_dataset.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "brigade/data/runtime/stage_stats.h"
#include "brigade/data/transforms/zip.h"
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
  EXPECT_EQ(all_shares(distributed(numbers_to(7).batch(4), 2)),
            (std::vector<Shares>{{{0, 1}, {2, 3}}, {{4, 5}, {6}}}));
}

TEST(DistributedDataset, ADroppedRemainderIsDroppedForAll) {
  const auto batches = numbers_to(9).batch(4, {.remainder = data::Remainder::kDrop});
  const auto dataset = distributed(batches, 2);
  EXPECT_EQ(all_shares(dataset), (std::vector<Shares>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}));
  EXPECT_EQ(dataset.cardinality(), 2);
}

TEST(DistributedDataset, ADatasetOfNoBatchesIsRefused) {
  for (const auto kind : {BatchKind::kGlobal, BatchKind::kPerReplica}) {
    const Error error = error_from([&] { distributed(numbers_to(4), 2, kind).iterator().next(); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(says(error, "A batch needs a first dimension")) << error.what();
  }
}

TEST(DistributedDataset, BatchesOfTuplesAreCutPartByPart) {
  const auto images = input::from_tensor_slices(at::arange(10).reshape({5, 2}));
  const auto batches = data::zip(images, numbers_to(5)).enumerate().batch(5);
  using Batch = decltype(batches)::Element;
  static_assert(std::same_as<Batch, std::tuple<Numbers, std::tuple<at::Tensor, at::Tensor>>>);
  const std::vector<c10::Device> devices(2, c10::Device(c10::kMeta));
  for (const auto fetch : {DeviceFetch::kStayOnHost, DeviceFetch::kToReplica}) {
    const DistributedDataset<Batch> dataset(batches, devices, 3, BatchKind::kGlobal, nullptr, {},
                                            {.fetch = fetch, .per_replica_buffer_size = 0});
    auto walk = dataset.iterator();
    const auto batch = walk.next();
    EXPECT_EQ(batch->examples()->local, Numbers({3, 2}));
    const auto& [numbers, pictures] = (*batch)[1];
    EXPECT_EQ(numbers, Numbers({3, 4}));
    EXPECT_EQ(std::get<0>(pictures).sizes(), at::IntArrayRef({2, 2}));
    const bool stays = fetch == DeviceFetch::kStayOnHost;
    EXPECT_EQ(std::get<1>(pictures).is_meta(), !stays);
    if (stays) {
      EXPECT_EQ(numbers_of(std::get<1>(pictures).contiguous()), Numbers({3, 4}));
    }
    EXPECT_FALSE(walk.next().has_value());
  }
}

TEST(DistributedDataset, PairsAreTakenInTurnsWithEmptyOnesAtTheEnd) {
  const auto batches =
      numbers_to(3).map([](const at::Tensor& id) { return std::pair(id, id * 10); }).batch(2);
  const std::vector<c10::Device> devices(3, c10::Device(c10::kCPU));
  const DistributedDataset<std::pair<at::Tensor, at::Tensor>> dataset(batches, devices, 3,
                                                                      BatchKind::kPerReplica);
  const auto batch = dataset.iterator().next();
  EXPECT_EQ(numbers_of((*batch)[0].second), Numbers({0, 10}));
  EXPECT_EQ(numbers_of((*batch)[1].first), Numbers({2}));
  EXPECT_EQ((*batch)[2].second.sizes(), at::IntArrayRef({0}));
}

TEST(DistributedDataset, AWalkTellsWhatItsStepsDid) {
  const auto batches = numbers_to(12).map([](const at::Tensor& t) { return t + 1; }).batch(4);
  for (const int ahead : {0, 2}) {
    const DistributedDataset<at::Tensor> dataset(batches, {c10::Device(c10::kCPU)}, 3,
                                                 BatchKind::kGlobal, nullptr, {},
                                                 {.per_replica_buffer_size = ahead});
    auto walk = dataset.iterator({.stages = {.count = data::StagesOptions::Count::kAll}});
    while (walk.next()) {
    }
    const std::vector<data::StageStats> stats = walk.stats();
    ASSERT_EQ(stats.size(), 3u) << data::describe(stats);
    EXPECT_EQ(stats[1].name, "map");
    EXPECT_EQ(stats[1].elements, 12u);
    EXPECT_EQ(stats[2].elements, 3u);
    auto unmeasured = dataset.iterator();
    unmeasured.next();
    EXPECT_TRUE(unmeasured.stats().empty());
  }
}

TEST(DistributedDataset, PipelinesOfReplicasAreToldApart) {
  const MirroredStrategy strategy(cpus(2));
  const auto dataset = strategy.distribute_from_function(
      [](const InputContext& context) {
        return numbers_to(context.input_pipeline_id == 0 ? 4 : 6).batch(2);
      },
      {.replication = InputReplication::kPerReplica});
  auto walk = dataset.iterator({.stages = {.count = data::StagesOptions::Count::kAll}});
  while (walk.next()) {
  }
  const std::vector<data::StageStats> stats = walk.stats();
  ASSERT_EQ(stats.size(), 4u) << data::describe(stats);
  EXPECT_EQ(stats[1].name, "replica 0: batch(2)");
  EXPECT_EQ(stats[1].elements, 2u);
  EXPECT_EQ(stats[3].name, "replica 1: batch(2)");
  EXPECT_EQ(stats[3].elements, 3u);
}

TEST(DistributedDataset, ACancelledWalkEnds) {
  const concurrency::CancelToken token;
  token.cancel();
  const auto dataset = distributed(numbers_to(4).batch(2), 2);
  for (const bool with_options : {false, true}) {
    auto walk = with_options ? dataset.iterator({.cancel = token}) : dataset.iterator(token);
    EXPECT_EQ(error_from([&] { walk.next(); }).code(), ErrorCode::kCancelled);
  }
}

// In TensorFlow a ValueError.
TEST(DistributedDataset, IsNotDrawnFromInsideAReplica) {
  MirroredStrategy strategy(cpus(2));
  auto walk = strategy.distribute(numbers_to(8).batch(4)).iterator();
  const Error error =
      error_from([&] { strategy.run([&](ReplicaContext&) { return walk.next()->size(); }); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(says(error, "draw it before Strategy::run")) << error.what();
  EXPECT_EQ(shares_of(*walk.next()), (Shares{{0, 1}, {2, 3}})) << "nothing was drawn";
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

TEST(DistributedDataset, DistributingInsideTheLoopOverEpochsGivesTheSameOrdersAsOutside) {
  const auto batches = numbers_to(50).shuffle(50).batch(8);
  const MirroredStrategy once(cpus(2));
  const auto distributed_once = once.distribute(batches);
  const MirroredStrategy each_time(cpus(2));
  std::vector<std::vector<Shares>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto expected = all_shares(distributed_once);
    EXPECT_EQ(all_shares(each_time.distribute(batches)), expected) << "epoch " << epoch;
    for (const auto& before : orders) EXPECT_NE(expected, before);
    orders.push_back(expected);
  }
  const MirroredStrategy by_function(cpus(2));
  const auto pieces = numbers_to(50).shuffle(50).batch(4);
  const auto make = [&](const InputContext&) { return pieces; };
  EXPECT_NE(all_shares(by_function.distribute_from_function(make)),
            all_shares(by_function.distribute_from_function(make)));
}

TEST(DistributedDataset, EpochsThatAnIteratorReachesByItselfAreCounted) {
  const MirroredStrategy strategy(cpus(2));
  const auto batches = numbers_to(50).shuffle(50).batch(8);
  auto iterator = strategy.distribute(batches).iterator();
  iterator.start_next_epoch();
  EXPECT_EQ(strategy.distribute(batches).iterator().epoch(), 2U);

  const MirroredStrategy resumed(cpus(2));
  resumed.distribute(batches).iterator().restore(iterator.save());
  EXPECT_EQ(resumed.distribute(batches).iterator().epoch(), 2U) << "as in the run before";
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
  const std::ptrdiff_t before = settled_threads_of_this_process();
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

// One law for all ways to make batches ahead: nothing that a step sees depends on it.
TEST(DistributedDataset, BatchesMadeAheadAreTheSameAndResumeExactly) {
  const auto batches = numbers_to(60).shuffle(20).batch(7).prefetch(2);
  const auto add_noise = [](const at::Tensor& share, ReplicaMapContext& context) {
    return share * 1'000 + static_cast<std::int64_t>(context.rng.uniform_below(500)) +
           at::randint(500, share.sizes(), share.options());
  };
  const auto made = [&](int ahead, std::uint64_t seed) {
    const InputOptions options{.per_replica_buffer_size = ahead};
    const std::vector<c10::Device> devices(3, c10::Device(c10::kCPU));
    return DistributedDataset<at::Tensor>(batches, devices, seed, BatchKind::kGlobal, nullptr, {},
                                          options)
        .map_on_replica(add_noise);
  };
  const auto expected = all_shares(made(0, 3));
  EXPECT_EQ(expected.size(), 9u);
  EXPECT_NE(expected, all_shares(made(0, 4)));
  for (const int ahead : {0, 1, 4}) {
    EXPECT_EQ(all_shares(made(ahead, 3)), expected) << ahead;
    auto iterator = made(ahead, 3).iterator();
    for (std::size_t taken = 0; taken <= expected.size(); ++taken) {
      auto resumed = made(ahead, /*seed=*/99).iterator();
      resumed.restore(iterator.save());
      for (std::size_t i = taken; i < expected.size(); ++i)
        ASSERT_EQ(shares_of(*resumed.next()), expected[i]) << ahead << ", from " << taken;
      EXPECT_FALSE(resumed.next().has_value());
      if (taken < expected.size()) iterator.next();
    }
  }
}

TEST(DistributedDataset, ALoopLeftEarlyLeavesNoStagingThread) {
  const std::ptrdiff_t before = settled_threads_of_this_process();
  {
    const DistributedDataset<at::Tensor> dataset(numbers_to(1'000).batch(4),
                                                 {c10::Device(c10::kCPU)}, 3, BatchKind::kGlobal,
                                                 nullptr, {}, {.per_replica_buffer_size = 2});
    for (const auto& batch : dataset) {
      EXPECT_EQ(shares_of(batch), (Shares{{0, 1, 2, 3}}));
      EXPECT_GT(threads_of_this_process(), before) << "nothing works ahead";
      break;
    }
  }
  EXPECT_TRUE(threads_go_down_to(before));
}

TEST(DistributedDataset, AFunctionOnReplicasSeesEachShareAndCountsEpochs) {
  const auto plain = distributed(numbers_to(3).batch(2), 2);
  const auto mapped = plain
                          .map_on_replica([](const at::Tensor& share, ReplicaMapContext& context) {
                            return share + 100 * (context.replica + 1);
                          })
                          .map_on_replica([](const at::Tensor& share, ReplicaMapContext& context) {
                            return share * 10 + static_cast<std::int64_t>(context.epoch);
                          });
  EXPECT_EQ(all_shares(mapped), (std::vector<Shares>{{{1000}, {2010}}, {{1020}, {}}}));
  EXPECT_EQ(all_shares(mapped), (std::vector<Shares>{{{1001}, {2011}}, {{1021}, {}}}));
  EXPECT_EQ(plain.iterator().epoch(), 2u);
  EXPECT_EQ(mapped.cardinality(), 2);
  const Error error = error_from([&] {
    all_shares(plain.map_on_replica(
        [](const at::Tensor& share, ReplicaMapContext&) { return share.narrow(0, 0, 0); }));
  });
  EXPECT_TRUE(says(error, "replica 0 at step 0 of epoch 3: the function made 0 examples of 1"))
      << error.what();
}

TEST(DistributedDataset, ReplicasMayHavePipelinesOfTheirOwn) {
  const MirroredStrategy strategy(cpus(2));
  std::vector<InputContext> contexts;
  const auto make = [&](const InputContext& context) {
    contexts.push_back(context);
    return numbers_to(context.input_pipeline_id == 0 ? 3 : 5).batch(2);
  };
  for (const int ahead : {0, 2}) {
    contexts.clear();
    const auto dataset = strategy.distribute_from_function(
        make, {.replication = InputReplication::kPerReplica, .per_replica_buffer_size = ahead});
    ASSERT_EQ(contexts.size(), 2u);
    EXPECT_EQ(contexts[1].num_input_pipelines, 2);
    EXPECT_EQ(contexts[1].input_pipeline_id, 1);
    EXPECT_EQ(contexts[1].torch_device, "cpu");
    EXPECT_EQ(dataset.cardinality(), 3);
    EXPECT_EQ(all_shares(dataset),
              (std::vector<Shares>{{{0, 1}, {0, 1}}, {{2}, {2, 3}}, {{}, {4}}}));
    auto iterator = dataset.iterator();
    iterator.next();
    iterator.next();
    auto resumed = dataset.iterator();
    resumed.restore(iterator.save());
    EXPECT_EQ(shares_of(*resumed.next()), (Shares{{}, {4}}));
    EXPECT_FALSE(resumed.next().has_value());
  }
}

TEST(DistributedDataset, DatasetsOnReplicasDevicesMustLieThere) {
  const MirroredStrategy strategy(cpus(1));
  const InputOptions options{.fetch = DeviceFetch::kStayOnHost,
                             .replication = InputReplication::kPerReplica,
                             .placement = DatasetPlacement::kOnReplica};
  const auto here = strategy.distribute_from_function(
      [](const InputContext&) { return numbers_to(2).batch(2); }, options);
  EXPECT_EQ(all_shares(here), (std::vector<Shares>{{{0, 1}}}));
  const auto elsewhere = strategy.distribute_from_function(
      [](const InputContext&) {
        return numbers_to(2).batch(2).map([](const at::Tensor& t) { return t.to(c10::kMeta); });
      },
      options);
  const Error error = error_from([&] { elsewhere.iterator().next(); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(says(error, "is on meta")) << error.what();
}

TEST(DistributedDataset, WithoutFetchingSharesStayOnTheHost) {
  const std::vector<c10::Device> elsewhere{c10::Device(c10::kMeta)};
  const DistributedDataset<at::Tensor> fetched(numbers_to(2).batch(2), elsewhere, 0,
                                               BatchKind::kGlobal, nullptr, {},
                                               {.per_replica_buffer_size = 0});
  EXPECT_EQ((*fetched.iterator().next())[0].device(), c10::Device(c10::kMeta));
  const DistributedDataset<at::Tensor> staying(numbers_to(2).batch(2), elsewhere, 0,
                                               BatchKind::kGlobal, nullptr, {},
                                               {.fetch = DeviceFetch::kStayOnHost});
  EXPECT_EQ(shares_of(*staying.iterator().next()), (Shares{{0, 1}}));
}

}  // namespace
}  // namespace brigade::distribute
