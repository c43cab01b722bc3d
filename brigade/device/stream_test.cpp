#include "brigade/device/stream.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "brigade/device/testing/fake_device.h"

namespace brigade::device {
namespace {

using testing::FakeDevice;

TEST(Stream, IsANoOpOnTheCpu) {
  const c10::Stream stream = make_stream(Device());
  EXPECT_TRUE(stream.device_type() == c10::kCPU);
  const StreamScope scope(stream);
  EXPECT_EQ(at::ones({3}).sum().item<float>(), 3.0F);
  synchronize(stream);
}

TEST(CopyStream, OnCpuTheTensorIsReturnedUnchanged) {
  const CopyStream stream{c10::Device(c10::kCPU)};
  const at::Tensor tensor = at::ones({3});
  EXPECT_TRUE(stream.copy(tensor).is_same(tensor));
  const CopyStream::Scope scope(stream);
  EXPECT_EQ(at::ones({3}).sum().item<float>(), 3.0F);
  EXPECT_NO_THROW(use_on_current_stream(tensor));
  EXPECT_NO_THROW(use_on_current_stream(at::Tensor()));
}

TEST(CopyStream, IsNeverAReplicasStreamHoweverManyThereAre) {
  FakeDevice::get();
  const Device card{.torch_device = FakeDevice::device()};
  const c10::impl::VirtualGuardImpl guard(c10::kPrivateUse1);
  const c10::Stream first = make_stream(card);
  std::vector<c10::Stream> replicas;
  for (int i = 0; i < FakeDevice::kPooledStreams; ++i) replicas.push_back(make_stream(card));
  EXPECT_EQ(std::ranges::count(replicas, first), 1) << "streams of one pool are used again";
  for (int i = 0; i < FakeDevice::kPooledStreams; ++i) {
    const CopyStream stream(FakeDevice::device());
    const CopyStream::Scope scope(stream);
    EXPECT_EQ(std::ranges::count(replicas, guard.getStream(FakeDevice::device())), 0);
  }
}

/// Completes what the stream has queued so far.
c10::Event mark(const CopyStream& stream) {
  const CopyStream::Scope scope(stream);
  c10::Event event(c10::kPrivateUse1);
  event.record(c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getStream(FakeDevice::device()));
  return event;
}

void wait_for(c10::Event& event) {
  event.block(c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getStream(FakeDevice::device()));
}

TEST(CopyStream, CopiesAreQueuedFromPinnedMemoryAndCompleteAtTheirEvent) {
  FakeDevice& card = FakeDevice::get();
  const CopyStream stream(FakeDevice::device());
  const int queued = card.queued_copies();
  const at::Tensor values = at::arange(5);
  const at::Tensor there = stream.copy(values);
  EXPECT_EQ(there.device(), FakeDevice::device());
  EXPECT_EQ(card.queued_copies(), queued + 1) << "the host waited";
  EXPECT_FALSE(FakeDevice::read(there).equal(values)) << "the fake device ran too early";
  c10::Event arrived = mark(stream);
  wait_for(arrived);
  EXPECT_TRUE(FakeDevice::read(there).equal(values));
  EXPECT_TRUE(stream.copy(there).is_same(there));
}

/// Frees a copy that the current stream still has to read, with or without `use_on_current_stream`,
/// and copies something else. Returns what the current stream reads.
enum class Use { kSaid, kUnsaid };
std::int64_t read_after_reuse(Use use) {
  FakeDevice::get();
  const CopyStream stream(FakeDevice::device());
  std::optional<at::Tensor> first = stream.copy(at::full({7}, 1));
  c10::Event arrived = mark(stream);
  wait_for(arrived);
  if (use == Use::kSaid) use_on_current_stream(*first);
  const at::Tensor copied = first->clone();  // queued, not done
  first.reset();
  const at::Tensor second = stream.copy(at::full({7}, 2));
  c10::Event written = mark(stream);
  {
    const CopyStream::Scope scope(stream);
    FakeDevice::read(second);  // the copy is done before the current stream has read the first
  }
  return FakeDevice::read(copied)[0].item<std::int64_t>();
}

TEST(CopyStream, MemoryUsedOnAnotherStreamIsNotReusedTooEarly) {
  EXPECT_EQ(read_after_reuse(Use::kSaid), 1);
  EXPECT_EQ(read_after_reuse(Use::kUnsaid), 2) << "otherwise this test would prove nothing";
}

TEST(StreamFence, WaitsForWhatWasRecordedLastAndOnlyForThat) {
  FakeDevice::get();
  const CopyStream first({FakeDevice::device()});
  const CopyStream second({FakeDevice::device()});
  StreamFence fence;
  const at::Tensor one = first.copy(at::full({3}, 1));
  {
    const CopyStream::Scope scope(first);
    fence.record(FakeDevice::device());
  }
  const at::Tensor two = second.copy(at::full({3}, 2));
  {
    const CopyStream::Scope scope(second);
    fence.wait(FakeDevice::device());
    EXPECT_EQ(FakeDevice::read(one)[0].item<int>(), 1);
    fence.record(FakeDevice::device());
  }
  const at::Tensor three = first.copy(at::full({3}, 3));
  fence.wait(FakeDevice::device());
  EXPECT_EQ(FakeDevice::read(two)[0].item<int>(), 2);
  EXPECT_NE(FakeDevice::read(three)[0].item<int>(), 3) << "nothing waits for it";
  fence.record(std::span<const c10::Device>());
  EXPECT_NO_THROW(fence.wait(FakeDevice::device()));
}

TEST(StreamFence, DoesNothingOnCpu) {
  StreamFence fence;
  const c10::Device cpu(c10::kCPU);
  EXPECT_NO_THROW(fence.wait(cpu));  // also before `record`
  EXPECT_NO_THROW(fence.record(cpu));
  EXPECT_NO_THROW(fence.record(cpu));
  EXPECT_NO_THROW(fence.wait(cpu));
}

}  // namespace
}  // namespace brigade::device
