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
using Batches = std::vector<Numbers>;  // [replica]

data::Dataset<at::Tensor> numbers_to(std::int64_t count) {
  return input::from_tensor_slices(at::arange(count));
}

Numbers numbers_of(const at::Tensor& tensor) {
  const std::int64_t* first = tensor.const_data_ptr<std::int64_t>();
  return {first, first + tensor.numel()};
}

Batches batches_of(const PerReplica<at::Tensor>& batch) {
  Batches numbers;
  for (const at::Tensor& own : batch.values()) numbers.push_back(numbers_of(own.contiguous()));
  return numbers;
}

std::vector<Batches> all_batches(const DistributedDataset<at::Tensor>& dataset) {
  std::vector<Batches> all;
  for (const auto& batch : dataset) all.push_back(batches_of(batch));
  return all;
}

DistributedDataset<at::Tensor> distributed(const data::Dataset<at::Tensor>& batches, int replicas,
                                           BatchKind kind = BatchKind::kGlobal,
                                           std::uint64_t seed = 3) {
  return {batches,
          std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU)),
          seed, kind};
}

TEST(DistributedDataset, GlobalBatchesAreSplitEvenly) {
  EXPECT_EQ(all_batches(distributed(numbers_to(10).batch(4), 2)),
            (std::vector<Batches>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {9}}}));
  EXPECT_EQ(all_batches(distributed(numbers_to(10).batch(4), 3)),
            (std::vector<Batches>{{{0, 1}, {2}, {3}}, {{4, 5}, {6}, {7}}, {{8}, {9}, {}}}));
  EXPECT_EQ(all_batches(distributed(numbers_to(9).batch(4), 2)),
            (std::vector<Batches>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {}}}));
  EXPECT_EQ(all_batches(distributed(numbers_to(2).batch(2), 4)),
            (std::vector<Batches>{{{0}, {1}, {}, {}}}));
  EXPECT_EQ(all_batches(distributed(numbers_to(7).batch(4), 2)),
            (std::vector<Batches>{{{0, 1}, {2, 3}}, {{4, 5}, {6}}}));
}

TEST(DistributedDataset, ADroppedRemainderIsDroppedForAll) {
  const auto batches = numbers_to(9).batch(4, {.remainder = data::Remainder::kDrop});
  const auto dataset = distributed(batches, 2);
  EXPECT_EQ(all_batches(dataset), (std::vector<Batches>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}));
  EXPECT_EQ(dataset.cardinality(), 2);
}

TEST(DistributedDataset, ADatasetOfNoBatchesIsRefused) {
  for (const auto kind : {BatchKind::kGlobal, BatchKind::kPerReplica}) {
    const Error error = error_from([&] { distributed(numbers_to(4), 2, kind).iterator().next(); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(mentions(error, "A batch needs a first dimension")) << error.what();
  }
}

TEST(DistributedDataset, BatchesOfTuplesAreSplitFieldByField) {
  const auto images = input::from_tensor_slices(at::arange(10).reshape({5, 2}));
  const auto batches = data::zip(images, numbers_to(5)).enumerate().batch(5);
  using Batch = decltype(batches)::Element;
  static_assert(std::same_as<Batch, std::tuple<Numbers, std::tuple<at::Tensor, at::Tensor>>>);
  const std::vector<c10::Device> devices(2, c10::Device(c10::kMeta));
  for (const auto fetch : {DeviceFetch::kStayOnHost, DeviceFetch::kToReplica}) {
    const DistributedDataset<Batch> dataset(batches, devices, 3, BatchKind::kGlobal, nullptr, {},
                                            {.fetch = fetch, .per_replica_buffer_size = 0});
    auto iterator = dataset.iterator();
    const auto batch = iterator.next();
    EXPECT_EQ(batch->examples()->local, Numbers({3, 2}));
    const auto& [numbers, images_and_ids] = (*batch)[1];
    EXPECT_EQ(numbers, Numbers({3, 4}));
    EXPECT_EQ(std::get<0>(images_and_ids).sizes(), at::IntArrayRef({2, 2}));
    const bool stays_on_host = fetch == DeviceFetch::kStayOnHost;
    EXPECT_EQ(std::get<1>(images_and_ids).is_meta(), !stays_on_host);
    if (stays_on_host) {
      EXPECT_EQ(numbers_of(std::get<1>(images_and_ids).contiguous()), Numbers({3, 4}));
    }
    EXPECT_FALSE(iterator.next().has_value());
  }
}

/// A user's own elements and batches, which only name their fields.
struct OwnBatch;
struct OwnExample {
  using Batch = OwnBatch;
  at::Tensor pixels;
  std::int64_t label = 0;
  static constexpr auto fields = std::tuple{&OwnExample::pixels, &OwnExample::label};
};
struct OwnBatch {
  using Element = OwnExample;
  at::Tensor pixels, labels;
  static constexpr auto fields = std::tuple{&OwnBatch::pixels, &OwnBatch::labels};
};

TEST(DistributedDataset, BatchesOfAUsersTypeAreSplitPrefetchedMappedAndResumed) {
  const auto batches = numbers_to(11)
                           .map([](const at::Tensor& number) {
                             return OwnExample{number.expand({2}), number.item<std::int64_t>()};
                           })
                           .shuffle(5)
                           .batch(4)
                           .prefetch(2);
  MirroredStrategy strategy(cpus(2));
  const auto dataset = strategy.distribute(batches, {.per_replica_buffer_size = 2})
                           .map_on_replica([](OwnBatch own, ReplicaMapContext&) {
                             own.pixels = own.pixels * 10;
                             return own;
                           });
  const auto labels_of = [&](const PerReplica<OwnBatch>& batch) {
    const auto own = strategy.run(
        [](const OwnBatch& local) {
          EXPECT_TRUE(local.pixels.select(1, 1).equal(local.labels * 10));
          return numbers_of(local.labels.contiguous());
        },
        batch);
    return Batches(own.values());
  };
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next()->examples()->local, Numbers({2, 2}));
  const io::StateTree state = iterator.save();
  std::vector<Batches> rest;
  while (const auto batch = iterator.next()) rest.push_back(labels_of(*batch));
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[1][0].size(), 2u);
  EXPECT_EQ(rest[1][1].size(), 1u);
  auto resumed = dataset.iterator();
  resumed.restore(state);
  for (const Batches& expected : rest) EXPECT_EQ(labels_of(*resumed.next()), expected);
  EXPECT_FALSE(resumed.next().has_value());
}

TEST(DistributedDataset, PairsAreTakenInRotationWithEmptyOnesAtTheEnd) {
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

TEST(DistributedDataset, AnIteratorReportsStatisticsOfItsStages) {
  const auto batches = numbers_to(12).map([](const at::Tensor& t) { return t + 1; }).batch(4);
  for (const int ahead : {0, 2}) {
    const DistributedDataset<at::Tensor> dataset(batches, {c10::Device(c10::kCPU)}, 3,
                                                 BatchKind::kGlobal, nullptr, {},
                                                 {.per_replica_buffer_size = ahead});
    auto iterator = dataset.iterator({.stages = {.count = data::StagesOptions::Count::kAll}});
    while (iterator.next()) {
    }
    const std::vector<data::StageStats> stats = iterator.stats();
    ASSERT_EQ(stats.size(), 3u) << data::describe(stats);
    EXPECT_EQ(stats[1].name, "map");
    EXPECT_EQ(stats[1].elements, 12u);
    EXPECT_EQ(stats[2].elements, 3u);
    auto unmeasured = dataset.iterator();
    unmeasured.next();
    EXPECT_TRUE(unmeasured.stats().empty());
  }
}

TEST(DistributedDataset, StatisticsNameTheReplicaOfEachPipeline) {
  const MirroredStrategy strategy(cpus(2));
  const auto dataset = strategy.distribute_from_function(
      [](const InputContext& context) {
        return numbers_to(context.input_pipeline_id == 0 ? 4 : 6).batch(2);
      },
      {.replication = InputReplication::kPerReplica});
  auto iterator = dataset.iterator({.stages = {.count = data::StagesOptions::Count::kAll}});
  while (iterator.next()) {
  }
  const std::vector<data::StageStats> stats = iterator.stats();
  ASSERT_EQ(stats.size(), 4u) << data::describe(stats);
  EXPECT_EQ(stats[1].name, "replica 0: batch(2)");
  EXPECT_EQ(stats[1].elements, 2u);
  EXPECT_EQ(stats[3].name, "replica 1: batch(2)");
  EXPECT_EQ(stats[3].elements, 3u);
}

TEST(DistributedDataset, ACancelledIteratorThrows) {
  const concurrency::CancelToken token;
  token.cancel();
  const auto dataset = distributed(numbers_to(4).batch(2), 2);
  for (const bool with_options : {false, true}) {
    auto iterator = with_options ? dataset.iterator({.cancel = token}) : dataset.iterator(token);
    EXPECT_EQ(error_from([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
  }
}

// In TensorFlow a ValueError.
TEST(DistributedDataset, NextInsideAReplicaIsRefused) {
  MirroredStrategy strategy(cpus(2));
  auto iterator = strategy.distribute(numbers_to(8).batch(4)).iterator();
  const Error error =
      error_from([&] { strategy.run([&](ReplicaContext&) { return iterator.next()->size(); }); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "call it before Strategy::run")) << error.what();
  EXPECT_EQ(batches_of(*iterator.next()), (Batches{{0, 1}, {2, 3}})) << "nothing was read";
}

TEST(DistributedDataset, BatchesKnowTheirExamples) {
  auto iterator = distributed(numbers_to(5).batch(5), 3).iterator();
  const auto batch = iterator.next();
  EXPECT_EQ(batch->examples()->local, Numbers({2, 2, 1}));
  EXPECT_EQ(batch->examples()->global, 5);
  EXPECT_FALSE(iterator.next().has_value());
  EXPECT_FALSE(iterator.next().has_value()) << "the end stays the end";
}

TEST(DistributedDataset, AnEmptyBatchKeepsDtypeAndShape) {
  const auto images = input::from_tensor_slices(at::zeros({1, 4, 3}, at::kDouble)).batch(8);
  for (const auto& batch : distributed(images, 2)) {
    EXPECT_EQ(batch[1].sizes(), at::IntArrayRef({0, 4, 3}));
    EXPECT_EQ(batch[1].scalar_type(), at::kDouble);
  }
}

TEST(DistributedDataset, PerReplicaBatchesAreTakenInRotation) {
  EXPECT_EQ(all_batches(distributed(numbers_to(10).batch(2), 2, BatchKind::kPerReplica)),
            (std::vector<Batches>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8, 9}, {}}}));
}

TEST(DistributedDataset, CountsItsGlobalBatches) {
  EXPECT_EQ(distributed(numbers_to(10).batch(4), 2).cardinality(), 3);
  EXPECT_EQ(distributed(numbers_to(10).batch(2), 2, BatchKind::kPerReplica).cardinality(), 3);
  EXPECT_EQ(distributed(numbers_to(10).batch(2).repeat(), 2, BatchKind::kPerReplica).cardinality(),
            data::kInfinite);
}

TEST(DistributedDataset, EachLoopIsANewEpoch) {
  const auto dataset = distributed(numbers_to(50).shuffle(50).batch(8), 2);
  const auto first = all_batches(dataset);
  const auto second = all_batches(dataset);
  EXPECT_NE(first, second);
  Numbers seen(50, 0);
  for (const Batches& step : second) {
    for (const Numbers& own : step) {
      for (const std::int64_t number : own) ++seen[number];
    }
  }
  EXPECT_EQ(seen, Numbers(50, 1)) << "every example is read once in an epoch";
  EXPECT_EQ(dataset.iterator().epoch(), 2u);
}

TEST(DistributedDataset, DistributingInsideTheLoopOverEpochsGivesTheSameOrdersAsOutside) {
  const auto batches = numbers_to(50).shuffle(50).batch(8);
  const MirroredStrategy once(cpus(2));
  const auto distributed_once = once.distribute(batches);
  const MirroredStrategy each_time(cpus(2));
  std::vector<std::vector<Batches>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto expected = all_batches(distributed_once);
    EXPECT_EQ(all_batches(each_time.distribute(batches)), expected) << "epoch " << epoch;
    for (const auto& before : orders) EXPECT_NE(expected, before);
    orders.push_back(expected);
  }
  const MirroredStrategy by_function(cpus(2));
  const auto pieces = numbers_to(50).shuffle(50).batch(4);
  const auto make = [&](const InputContext&) { return pieces; };
  EXPECT_NE(all_batches(by_function.distribute_from_function(make)),
            all_batches(by_function.distribute_from_function(make)));
}

TEST(DistributedDataset, EpochsThatAnIteratorReachesAreCounted) {
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
  EXPECT_EQ(all_batches(distributed(batches, 2)), all_batches(distributed(batches, 2)));
  EXPECT_NE(all_batches(distributed(batches, 2)),
            all_batches(distributed(batches, 2, BatchKind::kGlobal, 4)));
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
    EXPECT_EQ(batches_of(batch), (Batches{{1, 2}, {3, 4}}));
    EXPECT_FALSE(threads_of_this_process() <= before) << "nothing is prefetched";
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
  std::vector<Batches> rest;
  while (auto batch = iterator.next()) rest.push_back(batches_of(*batch));
  EXPECT_EQ(rest.size(), 6u);

  auto resumed = distributed(batches, 3, BatchKind::kGlobal, /*seed=*/99).iterator();
  resumed.restore(state);
  EXPECT_EQ(resumed.epoch(), 1u);
  for (const Batches& expected : rest) EXPECT_EQ(batches_of(*resumed.next()), expected);
  EXPECT_FALSE(resumed.next().has_value());
}

TEST(DistributedDataset, PerReplicaBatchesResumeToo) {
  const auto dataset = distributed(numbers_to(20).batch(2), 2, BatchKind::kPerReplica);
  auto iterator = dataset.iterator();
  iterator.next();
  auto resumed = dataset.iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(batches_of(*resumed.next()), (Batches{{4, 5}, {6, 7}}));
}

TEST(DistributedDataset, AStrategySplitsItsDatasetForItsReplicas) {
  const MirroredStrategy strategy(cpus(2));
  EXPECT_EQ(all_batches(strategy.distribute(numbers_to(3).batch(3))),
            (std::vector<Batches>{{{0, 1}, {2}}}));
  const auto from_function = strategy.distribute_from_function([](const InputContext& context) {
    EXPECT_EQ(context.num_replicas_in_sync, 2);
    EXPECT_EQ(context.num_input_pipelines, 1);
    return numbers_to(8).batch(context.get_per_replica_batch_size(4));
  });
  EXPECT_EQ(all_batches(from_function), (std::vector<Batches>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}));
  EXPECT_EQ(error_from([&] {
              strategy.distribute_from_function([](const InputContext& context) {
                return numbers_to(8).batch(context.get_per_replica_batch_size(3));
              });
            }).code(),
            ErrorCode::kInvalidArgument);
}

// Property: prefetching does not change what a step gets.
TEST(DistributedDataset, PrefetchedBatchesAreTheSameAndResumeExactly) {
  const auto batches = numbers_to(60).shuffle(20).batch(7).prefetch(2);
  const auto add_noise = [](const at::Tensor& own, ReplicaMapContext& context) {
    return own * 1'000 + static_cast<std::int64_t>(context.rng.uniform_below(500)) +
           at::randint(500, own.sizes(), own.options());
  };
  const auto made = [&](int ahead, std::uint64_t seed) {
    const InputOptions options{.per_replica_buffer_size = ahead};
    const std::vector<c10::Device> devices(3, c10::Device(c10::kCPU));
    return DistributedDataset<at::Tensor>(batches, devices, seed, BatchKind::kGlobal, nullptr, {},
                                          options)
        .map_on_replica(add_noise);
  };
  const auto expected = all_batches(made(0, 3));
  EXPECT_EQ(expected.size(), 9u);
  EXPECT_NE(expected, all_batches(made(0, 4)));
  for (const int ahead : {0, 1, 4}) {
    EXPECT_EQ(all_batches(made(ahead, 3)), expected) << ahead;
    auto iterator = made(ahead, 3).iterator();
    for (std::size_t taken = 0; taken <= expected.size(); ++taken) {
      auto resumed = made(ahead, /*seed=*/99).iterator();
      resumed.restore(iterator.save());
      for (std::size_t i = taken; i < expected.size(); ++i)
        ASSERT_EQ(batches_of(*resumed.next()), expected[i]) << ahead << ", from " << taken;
      EXPECT_FALSE(resumed.next().has_value());
      if (taken < expected.size()) iterator.next();
    }
  }
}

TEST(DistributedDataset, ALoopLeftEarlyLeavesNoPrefetchThread) {
  const std::ptrdiff_t before = settled_threads_of_this_process();
  {
    const DistributedDataset<at::Tensor> dataset(numbers_to(1'000).batch(4),
                                                 {c10::Device(c10::kCPU)}, 3, BatchKind::kGlobal,
                                                 nullptr, {}, {.per_replica_buffer_size = 2});
    for (const auto& batch : dataset) {
      EXPECT_EQ(batches_of(batch), (Batches{{0, 1, 2, 3}}));
      EXPECT_GT(threads_of_this_process(), before) << "nothing is prefetched";
      break;
    }
  }
  EXPECT_TRUE(threads_go_down_to(before));
}

TEST(DistributedDataset, AFunctionOnReplicasMapsEachBatchAndCountsEpochs) {
  const auto plain = distributed(numbers_to(3).batch(2), 2);
  const auto mapped = plain
                          .map_on_replica([](const at::Tensor& own, ReplicaMapContext& context) {
                            return own + 100 * (context.replica + 1);
                          })
                          .map_on_replica([](const at::Tensor& own, ReplicaMapContext& context) {
                            return own * 10 + static_cast<std::int64_t>(context.epoch);
                          });
  EXPECT_EQ(all_batches(mapped), (std::vector<Batches>{{{1000}, {2010}}, {{1020}, {}}}));
  EXPECT_EQ(all_batches(mapped), (std::vector<Batches>{{{1001}, {2011}}, {{1021}, {}}}));
  EXPECT_EQ(plain.iterator().epoch(), 2u);
  EXPECT_EQ(mapped.cardinality(), 2);
  const Error error = error_from([&] {
    all_batches(plain.map_on_replica(
        [](const at::Tensor& own, ReplicaMapContext&) { return own.narrow(0, 0, 0); }));
  });
  EXPECT_TRUE(
      mentions(error, "replica 0 at step 0 of epoch 3: the function returned 0 examples for 1"))
      << error.what();
}

TEST(DistributedDataset, ReplicasMayHaveSeparatePipelines) {
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
    EXPECT_EQ(all_batches(dataset),
              (std::vector<Batches>{{{0, 1}, {0, 1}}, {{2}, {2, 3}}, {{}, {4}}}));
    auto iterator = dataset.iterator();
    iterator.next();
    iterator.next();
    auto resumed = dataset.iterator();
    resumed.restore(iterator.save());
    EXPECT_EQ(batches_of(*resumed.next()), (Batches{{}, {4}}));
    EXPECT_FALSE(resumed.next().has_value());
  }
}

TEST(DistributedDataset, DatasetsOnReplicasMustMakeBatchesOnTheirDevice) {
  const MirroredStrategy strategy(cpus(1));
  const InputOptions options{.fetch = DeviceFetch::kStayOnHost,
                             .replication = InputReplication::kPerReplica,
                             .placement = DatasetPlacement::kOnReplica};
  const auto here = strategy.distribute_from_function(
      [](const InputContext&) { return numbers_to(2).batch(2); }, options);
  EXPECT_EQ(all_batches(here), (std::vector<Batches>{{{0, 1}}}));
  const auto elsewhere = strategy.distribute_from_function(
      [](const InputContext&) {
        return numbers_to(2).batch(2).map([](const at::Tensor& t) { return t.to(c10::kMeta); });
      },
      options);
  const Error error = error_from([&] { elsewhere.iterator().next(); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(mentions(error, "is on meta")) << error.what();
}

TEST(DistributedDataset, WithoutFetchingBatchesStayOnTheHost) {
  const std::vector<c10::Device> elsewhere{c10::Device(c10::kMeta)};
  const DistributedDataset<at::Tensor> fetched(numbers_to(2).batch(2), elsewhere, 0,
                                               BatchKind::kGlobal, nullptr, {},
                                               {.per_replica_buffer_size = 0});
  EXPECT_EQ((*fetched.iterator().next())[0].device(), c10::Device(c10::kMeta));
  const DistributedDataset<at::Tensor> staying(numbers_to(2).batch(2), elsewhere, 0,
                                               BatchKind::kGlobal, nullptr, {},
                                               {.fetch = DeviceFetch::kStayOnHost});
  EXPECT_EQ(batches_of(*staying.iterator().next()), (Batches{{0, 1}}));
}

}  // namespace
}  // namespace brigade::distribute
