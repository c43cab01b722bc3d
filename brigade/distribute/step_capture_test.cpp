#include "brigade/distribute/step_capture.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <stdexcept>

#include "brigade/base/error.h"

namespace brigade::distribute {
namespace {

/// What the fake graph has been asked for.
struct GraphLog {
  int begun = 0;
  int ended = 0;
  int replays = 0;
  std::function<void()> work;  // of a replay
};

class FakeGraph final : public device::CapturedGraph {
 public:
  explicit FakeGraph(GraphLog& log) : log_(log) {}
  void begin(std::span<const at::Generator>) override { ++log_.begun; }
  void end() override { ++log_.ended; }
  void replay() override {
    ++log_.replays;
    log_.work();
  }

 private:
  GraphLog& log_;
};

const c10::Device kHost(c10::kCPU);

StepCapture make_capture(GraphLog& log, int warmup = 2) {
  return StepCapture(warmup, [&](c10::Device) { return std::make_unique<FakeGraph>(log); });
}

std::vector<at::Tensor> some(double value, std::int64_t size = 3) {
  return {at::full({size}, value)};
}

using Next = StepCapture::Next;

TEST(StepCapture, CapturesAfterTheWarmUpAndThenReplaysOnCopiesOfTheArguments) {
  GraphLog log;
  StepCapture capture = make_capture(log);
  EXPECT_EQ(capture.plan(some(1)), Next::kEager);
  EXPECT_NE(capture.eager_reason().find("call 1 of 2"), std::string::npos);
  EXPECT_EQ(capture.plan(some(1)), Next::kEager);
  ASSERT_EQ(capture.plan(some(1)), Next::kCapture);
  const auto given = some(1);
  ASSERT_TRUE(capture.begin(kHost, given, {}));
  EXPECT_FALSE(capture.inputs()[0].is_same(given[0]));
  const at::Tensor result = at::full({3}, 0.0);
  log.work = [&, input = capture.inputs()[0]] { result.copy_(input.mul(2)); };
  capture.end({result});
  const at::Tensor first = capture.replay(some(4))[0];
  const at::Tensor second = capture.replay(some(5))[0];
  EXPECT_EQ(first[0].item<double>(), 8) << "it was overwritten by the next call";
  EXPECT_EQ(second[0].item<double>(), 10);
  EXPECT_EQ(given[0][0].item<double>(), 1) << "the caller's tensor is only read";
  EXPECT_EQ(capture.plan(some(6)), Next::kReplay);
  EXPECT_EQ(capture.eager_reason(), "");
  EXPECT_EQ(log.begun, 1);
  EXPECT_EQ(log.ended, 1);
}

TEST(StepCapture, OtherShapesRunEagerlyAndTheCaptureStays) {
  GraphLog log;
  StepCapture capture = make_capture(log, 1);
  capture.plan(some(1));
  ASSERT_TRUE(capture.begin(kHost, some(1), {}));
  capture.end({});
  EXPECT_EQ(capture.plan(some(1, 2)), Next::kEager);
  EXPECT_NE(capture.eager_reason().find("[2]"), std::string::npos) << capture.eager_reason();
  EXPECT_NE(capture.eager_reason().find("[3]"), std::string::npos) << capture.eager_reason();
  EXPECT_EQ(capture.plan({at::full({3}, 1, at::kLong)}), Next::kEager);
  EXPECT_EQ(capture.plan({}), Next::kEager);
  EXPECT_EQ(capture.plan(some(1)), Next::kReplay);
}

TEST(StepCapture, AFailedCaptureIsEndedAndNotTriedAgain) {
  GraphLog log;
  StepCapture capture = make_capture(log, 1);
  capture.plan(some(1));
  ASSERT_TRUE(capture.begin(kHost, some(1), {}));
  capture.give_up("it reads the host");
  EXPECT_EQ(log.ended, 1) << "the stream would stay in capture";
  EXPECT_EQ(capture.plan(some(1)), Next::kEager);
  EXPECT_EQ(capture.eager_reason(), "it reads the host");
}

TEST(StepCapture, WithoutGraphsItSaysSo) {
  StepCapture capture(1);
  capture.plan(some(1));
  EXPECT_FALSE(capture.begin(kHost, some(1), {}));
  EXPECT_NE(capture.eager_reason().find("cpu"), std::string::npos) << capture.eager_reason();
  EXPECT_THROW(StepCapture(0), Error);
}

}  // namespace
}  // namespace brigade::distribute
