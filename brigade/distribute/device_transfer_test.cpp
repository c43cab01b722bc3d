#include "brigade/distribute/device_transfer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/device/testing/fake_device.h"
#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"

namespace brigade::distribute {
namespace {

using device::testing::FakeDevice;

/// Ten batches of 8 for a card and a CPU.
DistributedDataset<at::Tensor> dataset_for_card(const InputOptions& options) {
  FakeDevice::get();
  return {input::from_tensor_slices(at::arange(80)).batch(8),
          {FakeDevice::device(), c10::Device(c10::kCPU)},
          /*seed=*/0,
          BatchKind::kGlobal,
          nullptr,
          {},
          options};
}

/// Whether the card's copies run before its steps.
enum class Copies { kLate, kEarly };

/// Iterates to the end with a card whose steps run only afterwards. Returns what they read.
std::vector<at::Tensor> read_late(const DistributedDataset<at::Tensor>& dataset,
                                  Copies copies = Copies::kLate) {
  std::vector<at::Tensor> steps;
  std::int64_t begin = 0;
  for (const auto& batch : dataset) {
    EXPECT_EQ(batch[0].device(), FakeDevice::device());
    steps.push_back(batch[0].clone());  // the step's work: queued, done at the end
    EXPECT_TRUE(batch[1].equal(at::arange(begin + 4, begin + 8)));
    begin += 8;
  }
  if (copies == Copies::kEarly) FakeDevice::get().run_other_streams();
  std::vector<at::Tensor> read;
  for (const at::Tensor& step : steps) read.push_back(FakeDevice::read(step));
  return read;
}

TEST(DeviceTransfer, BatchesAreCopiedWhileTheCardComputesAndLiveUntilItHasReadThem) {
  FakeDevice& card = FakeDevice::get();
  for (const auto& [ahead, copies] : {std::pair(1, Copies::kLate), std::pair(1, Copies::kEarly),
                                      std::pair(3, Copies::kLate), std::pair(3, Copies::kEarly)}) {
    const int waited = card.waited_copies();
    const int queued = card.queued_copies();
    const auto read = read_late(dataset_for_card({.per_replica_buffer_size = ahead}), copies);
    ASSERT_EQ(read.size(), 10u);
    for (std::size_t i = 0; i < read.size(); ++i) {
      const auto begin = static_cast<std::int64_t>(8 * i);
      EXPECT_TRUE(read[i].equal(at::arange(begin, begin + 4))) << read[i];
    }
    EXPECT_EQ(card.queued_copies(), queued + 10);
    EXPECT_EQ(card.waited_copies(), waited) << "the host waited for a copy";
  }
}

TEST(DeviceTransfer, BatchesAreStackedInPinnedMemoryAndCopiedFromThere) {
  FakeDevice& card = FakeDevice::get();
  std::atomic<int> stacked = 0;
  const auto batches =
      input::from_tensor_slices(at::arange(80)).batch(8).map([&](at::Tensor batch) {
        stacked += batch.is_pinned() ? 1 : 0;
        return batch;
      });
  const DistributedDataset<at::Tensor> dataset(batches, {FakeDevice::device()}, /*seed=*/0,
                                               BatchKind::kGlobal);
  const int allocations = card.pinned_allocations();
  const int waits = card.host_waits();
  for (const auto& batch : dataset) EXPECT_EQ(batch[0].device(), FakeDevice::device());
  EXPECT_EQ(stacked, 10);
  EXPECT_EQ(card.pinned_allocations(), allocations + 10) << "nothing was copied on the host";
  EXPECT_EQ(card.host_waits(), waits);
}

// Batches of a size of their own, whose memory nobody else has.
TEST(DeviceTransfer, PinnedMemoryIsReusedOnceItsCopiesHaveRunAndNotBefore) {
  FakeDevice& card = FakeDevice::get();
  const DistributedDataset<at::Tensor> dataset(
      input::from_tensor_slices(at::arange(40 * 19)).batch(19), {FakeDevice::device()}, /*seed=*/0,
      BatchKind::kGlobal);
  const auto blocks_of_epoch = [&](Copies copies) {
    const int before = card.pinned_blocks();
    std::vector<at::Tensor> seen;
    for (const auto& batch : dataset) {
      seen.push_back(batch[0].clone());
      if (copies == Copies::kEarly) FakeDevice::read(seen.back());
    }
    std::int64_t begin = 0;
    for (const at::Tensor& each : seen) {
      EXPECT_TRUE(FakeDevice::read(each).equal(at::arange(begin, begin + 19))) << begin;
      begin += 19;
    }
    return card.pinned_blocks() - before;
  };
  const int early = blocks_of_epoch(Copies::kEarly);
  EXPECT_GE(early, 1);
  EXPECT_LE(early, 8) << "memory of copies that have run is used again";
  EXPECT_GE(blocks_of_epoch(Copies::kLate), 40 - 8) << "memory of copies that have not run is kept";
}

TEST(DeviceTransfer, AllTransformsThatStackUseTheMemoryOfTheIteration) {
  FakeDevice::get();
  const data::IteratorOptions pinned{.batch_memory = data::BatchMemory::kPinned};
  const auto rows = input::from_tensor_slices(at::arange(12).view({6, 2}));
  const auto first = [](const auto& dataset, const data::IteratorOptions& options) {
    auto iterator = dataset.iterator(options);
    return *iterator.next();
  };
  for (const auto& dataset : {rows.batch(4), rows.padded_batch(4), rows.batch(2).rebatch(4),
                              rows.map([](at::Tensor row) {
                                    return row.expand({2, 2}).t();
                                  })
                                  .batch(4)
                                  .map([](const at::Tensor& batch) { return batch; })}) {
    const at::Tensor stacked = first(dataset, pinned);
    EXPECT_TRUE(stacked.is_pinned()) << dataset.describe();
    const at::Tensor ordinary = first(dataset, {});
    EXPECT_FALSE(ordinary.is_pinned()) << dataset.describe();
    EXPECT_TRUE(stacked.equal(ordinary)) << dataset.describe();
  }
  const auto labeled =
      input::from_tensor_slices(at::arange(12).view({6, 2}), at::arange(6), "rows").batch(4);
  EXPECT_TRUE(first(labeled, pinned).labels.is_pinned());
  EXPECT_FALSE(first(rows.batch(4).cache(), pinned).is_pinned()) << "a cache stays in memory";
}

TEST(DeviceTransfer, AFunctionRunsOnTheCardsCopyStream) {
  const auto dataset =
      dataset_for_card({}).map_on_replica([](const at::Tensor& batch, ReplicaMapContext& context) {
        EXPECT_EQ(batch.device(), context.device);
        return batch.clone();
      });
  const auto read = read_late(dataset);
  ASSERT_EQ(read.size(), 10u);
  EXPECT_TRUE(read[9].equal(at::arange(72, 76))) << read[9];
}

// Iterators come and go; a strategy's copies stay on the stream that it has for them.
TEST(DeviceTransfer, UsesTheStreamsThatItIsGivenInEveryEpoch) {
  FakeDevice& card = FakeDevice::get();
  const std::vector<c10::Device> devices = {FakeDevice::device()};
  const auto streams = make_copy_streams(devices);
  const c10::impl::VirtualGuardImpl guard(c10::kPrivateUse1);
  const auto own = [&] {
    const device::CopyStream::Scope scope(streams->front());
    return guard.getStream(FakeDevice::device());
  }();
  std::set<c10::StreamId> used;
  const auto dataset =
      DistributedDataset<at::Tensor>(input::from_tensor_slices(at::arange(8)).batch(4), devices,
                                     /*seed=*/0, BatchKind::kGlobal, nullptr, {}, InputOptions{},
                                     std::make_shared<EpochCounter>(), nullptr, streams)
          .map_on_replica([&](at::Tensor batch, ReplicaMapContext&) {
            used.insert(guard.getStream(FakeDevice::device()).id());
            return batch;
          });
  const int waits = card.host_waits();
  for (int epoch = 0; epoch < 2 * FakeDevice::kPooledStreams; ++epoch) {
    for (const auto& batch : dataset) EXPECT_EQ(batch.size(), 1u);
  }
  EXPECT_EQ(used, std::set<c10::StreamId>{own.id()});
  EXPECT_EQ(card.host_waits(), waits);
}

TEST(DeviceTransfer, DevicesHaveTheirThreadsAndTheFunctionIsCalledByOneAtATime) {
  std::atomic<int> inside = 0;
  std::set<std::thread::id> threads;
  const auto dataset = dataset_for_card({.per_replica_buffer_size = 2})
                           .map_on_replica([&](at::Tensor batch, ReplicaMapContext&) {
                             EXPECT_EQ(++inside, 1);
                             threads.insert(std::this_thread::get_id());
                             std::this_thread::yield();
                             --inside;
                             return batch;
                           });
  const auto read = read_late(dataset);
  ASSERT_EQ(read.size(), 10u);
  EXPECT_TRUE(read[9].equal(at::arange(72, 76)));
  EXPECT_EQ(threads.size(), 2u) << "of the card and of the CPU";
}

TEST(DeviceTransfer, WithoutPrefetchingCopiesAreQueuedOnTheCallersStream) {
  const int queued = FakeDevice::get().queued_copies();
  const int waited = FakeDevice::get().waited_copies();
  const auto read = read_late(dataset_for_card({.per_replica_buffer_size = 0}));
  ASSERT_EQ(read.size(), 10u);
  EXPECT_TRUE(read[9].equal(at::arange(72, 76)));
  EXPECT_EQ(FakeDevice::get().queued_copies(), queued + 10);
  EXPECT_EQ(FakeDevice::get().waited_copies(), waited);
}

const c10::Device kCpu(c10::kCPU);

TEST(DeviceTransfer, AFunctionThatDrawsNothingLeavesPositionsAsTheyAre) {
  const DistributedDataset<at::Tensor> plain(input::from_tensor_slices(at::arange(12)).batch(4),
                                             {kCpu}, /*seed=*/0, BatchKind::kGlobal);
  const auto doubled = [](const at::Tensor& batch, ReplicaMapContext&) { return batch * 2; };
  auto iterator = plain.map_on_replica(doubled, {.draws = false}).iterator();
  iterator.next();
  auto without = plain.iterator();
  without.restore(iterator.save());
  EXPECT_TRUE(without.next().value()[0].equal(at::arange(4, 8)));
  auto drawing = plain.map_on_replica(doubled).iterator();
  EXPECT_EQ(error_from([&] { drawing.restore(iterator.save()); }).code(),
            ErrorCode::kInvalidArgument);
}

/// Random numbers drawn for one batch: from the context, and by a tensor operation.
struct Drawn {
  std::uint64_t number = 0;
  double tensor = 0;
  bool operator==(const Drawn&) const = default;
};

Drawn drawn_for(const ReplicaBatchId& id) {
  Drawn drawn;
  in_replica_map_context(id, kCpu, [&](ReplicaMapContext& context) {
    drawn.number = context.rng();
    drawn.tensor = at::rand({1}, at::kDouble).item<double>();
  });
  return drawn;
}

TEST(ReplicaMapFunction, RandomNumbersDependOnTheBatchAlone) {
  const ReplicaBatchId id{.seed = 3, .replica = 1, .epoch = 2, .step = 7};
  EXPECT_EQ(drawn_for(id), drawn_for(id));
  for (const ReplicaBatchId& other :
       {ReplicaBatchId{4, 1, 2, 7}, ReplicaBatchId{3, 0, 2, 7}, ReplicaBatchId{3, 1, 1, 7},
        ReplicaBatchId{3, 1, 2, 8}, ReplicaBatchId{3, 2, 1, 7}, ReplicaBatchId{2, 1, 3, 7}}) {
    EXPECT_NE(drawn_for(id).number, drawn_for(other).number);
    EXPECT_NE(drawn_for(id).tensor, drawn_for(other).tensor);
  }
}

TEST(ReplicaMapFunction, KnowsItsBatchAndRecordsNoGradients) {
  in_replica_map_context({.replica = 1, .epoch = 2, .step = 7}, kCpu,
                         [](ReplicaMapContext& context) {
                           EXPECT_EQ(context.replica, 1);
                           EXPECT_EQ(context.epoch, 2u);
                           EXPECT_EQ(context.step, 7u);
                           EXPECT_EQ(context.device, kCpu);
                           EXPECT_FALSE(at::GradMode::is_enabled());
                         });
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(ReplicaMapFunction, ErrorsNameTheBatch) {
  const Error error = error_from([] {
    in_replica_map_context({.replica = 1, .epoch = 2, .step = 7}, kCpu,
                           [](ReplicaMapContext&) { throw std::runtime_error("no image"); });
  });
  EXPECT_EQ(error.code(), ErrorCode::kAborted);
  EXPECT_TRUE(mentions(error, "replica 1 at step 7 of epoch 2: no image")) << error.what();
}

TEST(ReplicaMapFunction, KeepsTheNumberOfExamples) {
  EXPECT_NO_THROW(check_example_count(3, 3));
  EXPECT_EQ(error_from([] { check_example_count(3, 2); }).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::distribute
