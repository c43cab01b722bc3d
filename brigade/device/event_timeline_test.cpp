#include "brigade/device/event_timeline.h"

#include <gtest/gtest.h>

#include "brigade/base/testing/error_code.h"
#include "brigade/device/stream.h"
#include "brigade/device/testing/fake_device.h"

namespace brigade::device {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::FakeDevice;

TEST(EventTimeline, MeasuresTheCardsTimeAndWaitsOnlyIfAsked) {
  FakeDevice& card = FakeDevice::get();
  const c10::Stream stream = make_stream({.torch_device = FakeDevice::device()});
  const StreamScope scope(stream);
  EventTimeline timeline(stream);
  const int waits = card.host_waits();
  timeline.mark();
  card.compute_for(3);
  timeline.mark();
  card.compute_for(5);
  timeline.mark();
  EXPECT_FALSE(timeline.take()) << "the card has not begun";
  EXPECT_EQ(card.host_waits(), waits);
  timeline.wait();
  EXPECT_EQ(card.host_waits(), waits + 1);
  EXPECT_EQ(timeline.take(), nanoseconds(milliseconds(3)));
  EXPECT_EQ(timeline.take(), nanoseconds(milliseconds(5)));
  EXPECT_FALSE(timeline.take());
  EXPECT_EQ(timeline.size(), 1u) << "the begin of what comes next";
}

TEST(EventTimeline, CountsTheTimeForWhichAStreamWaitsForAnother) {
  FakeDevice& card = FakeDevice::get();
  const Device device{.torch_device = FakeDevice::device()};
  const c10::Stream other = make_stream(device);
  const c10::Stream stream = make_stream(device);
  StreamFence fence;
  const StreamScope scope(stream);
  EventTimeline timeline(stream);
  timeline.mark();
  timeline.wait();
  {
    const StreamScope on_other(other);
    for (int i = 0; i < 100; ++i) card.compute_for(100);  // later than the stream by now
    fence.record(FakeDevice::device());
  }
  fence.wait(FakeDevice::device());
  timeline.mark();
  timeline.wait();
  EXPECT_GT(timeline.take().value_or(nanoseconds(0)), milliseconds(0));
}

TEST(EventTimeline, ForgetsWhatIsCleared) {
  FakeDevice::get();
  const c10::Stream stream = make_stream({.torch_device = FakeDevice::device()});
  EventTimeline timeline(stream);
  timeline.mark();
  timeline.mark();
  timeline.clear();
  EXPECT_EQ(timeline.size(), 0u);
  timeline.wait();
  EXPECT_FALSE(timeline.take());
}

TEST(EventTimeline, IsForGpus) {
  EXPECT_EQ(base::testing::code_of([] { EventTimeline{make_stream(Device{})}; }),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::device
