#include "brigade/distribute/device_transfer.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <utility>

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

TEST(DeviceTransfer, WithoutPrefetchingTheHostCopies) {
  const int queued = FakeDevice::get().queued_copies();
  const auto read = read_late(dataset_for_card({.per_replica_buffer_size = 0}));
  ASSERT_EQ(read.size(), 10u);
  EXPECT_TRUE(read[9].equal(at::arange(72, 76)));
  EXPECT_EQ(FakeDevice::get().queued_copies(), queued);
}

}  // namespace
}  // namespace brigade::distribute
