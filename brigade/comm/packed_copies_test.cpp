#include "brigade/comm/packed_copies.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "brigade/comm/testing/process_threads.h"
#include "brigade/device/testing/fake_device.h"

namespace brigade::comm {
namespace {

using device::testing::FakeDevice;

/// On the fake card, copied there without a wait of the host.
at::Tensor on_card(const at::Tensor& values) {
  at::Tensor pinned = at::empty_like(values, values.options().pinned_memory(true));
  pinned.copy_(values);
  return pinned.to(FakeDevice::device(), /*non_blocking=*/true);
}

TEST(PackedCopies, TensorsOfADtypeAreCopiedTogetherAndTheHostWaitsOnce) {
  FakeDevice& card = FakeDevice::get();
  const std::vector<at::Tensor> tensors = {
      on_card(at::arange(4, at::kFloat)), on_card(at::ones({2, 3})),
      on_card(at::arange(5, at::kLong)), on_card(at::full({3}, 7.0F))};
  const int waits = card.host_waits();
  const int to_host = card.copies_to_host();
  PackedCopies copies;
  for (const at::Tensor& tensor : tensors) copies.add(tensor);
  copies.fetch();
  EXPECT_EQ(card.host_waits(), waits + 1);
  EXPECT_EQ(card.copies_to_host(), to_host + 2) << "one for each dtype";
  EXPECT_TRUE(copies.flat(0).equal(at::arange(4, at::kFloat)));
  EXPECT_TRUE(copies.flat(1).equal(at::ones({6})));
  EXPECT_TRUE(copies.flat(2).equal(at::arange(5, at::kLong)));
  for (std::size_t i = 0; i < tensors.size(); ++i) copies.flat(i).mul_(2);
  const int queued = card.queued_copies();
  copies.send_back(3);
  EXPECT_EQ(card.queued_copies(), queued + 2);
  EXPECT_EQ(card.host_waits(), waits + 1) << "values go back without a wait";
  EXPECT_TRUE(FakeDevice::read(tensors[1]).equal(at::full({2, 3}, 2.0F)));
  EXPECT_TRUE(FakeDevice::read(tensors[2]).equal(at::arange(5, at::kLong) * 2));
  EXPECT_TRUE(FakeDevice::read(tensors[3]).equal(at::full({3}, 7.0F))) << "beyond the count";
}

// Two "processes" reduce five tensors of the card over the host.
TEST(PackedCopies, AReductionOverTheHostCopiesOncePerProcessInEachDirection) {
  FakeDevice& card = FakeDevice::get();
  constexpr int kProcesses = 2;
  constexpr int kTensors = 5;
  const int waits = card.host_waits();
  const int to_host = card.copies_to_host();
  std::atomic<int> reads = 0;
  run_processes_successfully(
      kProcesses, {.timeout = std::chrono::seconds(60)}, [&](ProcessCommunicator& processes) {
        const device::StreamScope on_stream(
            device::make_stream({.torch_device = FakeDevice::device()}));
        std::vector<at::Tensor> tensors;
        for (int i = 0; i < kTensors; ++i)
          tensors.push_back(on_card(at::full({i + 1}, processes.rank() + 1.0F + i)));
        processes.all_reduce(tensors, ReduceOp::kSum)->wait();
        processes.barrier();
        ++reads;
        while (reads < kProcesses) std::this_thread::yield();
        if (processes.rank() == 0) {
          EXPECT_EQ(card.host_waits(), waits + kProcesses);
          EXPECT_EQ(card.copies_to_host(), to_host + kProcesses);
        }
        processes.barrier();
        for (int i = 0; i < kTensors; ++i)
          EXPECT_TRUE(FakeDevice::read(tensors[static_cast<std::size_t>(i)])
                          .equal(at::full({i + 1}, 3.0F + 2 * i)));
      });
}

}  // namespace
}  // namespace brigade::comm
