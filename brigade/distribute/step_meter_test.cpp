#include "brigade/distribute/step_meter.h"

#include <gtest/gtest.h>

#include <thread>

namespace brigade::distribute {
namespace {

using comm::StepPhase;
using std::chrono::nanoseconds;

void spend(nanoseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
}

/// One step whose replicas run one after the other.
void step(StepMeter& meter, int replicas) {
  meter.begin_step();
  for (int replica = 0; replica < replicas; ++replica) {
    const StepMeter::ReplicaScope scope(meter, replica);
    spend(nanoseconds(100'000));
  }
  meter.finish_step();
}

TEST(StepMeter, IsOffAtFirst) {
  StepMeter meter(2);
  { const StepMeter::InputScope input(&meter); }
  step(meter, 2);
  EXPECT_EQ(meter.clock(0), nullptr);
  EXPECT_EQ(meter.times()[0].steps, 0);
  EXPECT_EQ(meter.times()[0].total(), nanoseconds(0));
}

TEST(StepMeter, EveryReplicasPhasesAddUpToTheSameTotal) {
  StepMeter meter(3);
  meter.measure(StepMeasuring::kOn);
  for (int i = 0; i < 4; ++i) {
    { const StepMeter::InputScope input(&meter); }
    step(meter, 3);
  }
  for (const StepTimes& times : meter.times()) {
    EXPECT_EQ(times.steps, 4);
    EXPECT_EQ(times.total(), meter.times()[0].total());
    EXPECT_GE(times.spent(StepPhase::kCompute), nanoseconds(400'000));
    EXPECT_GE(times.spent(StepPhase::kWait), nanoseconds(800'000)) << "while the others ran";
    EXPECT_GT(times.spent(StepPhase::kInput), nanoseconds(0));
  }
}

TEST(StepMeter, ASingleReplicaNeverWaits) {
  StepMeter meter(1);
  meter.measure(StepMeasuring::kOn);
  step(meter, 1);
  EXPECT_EQ(meter.times()[0].spent(StepPhase::kWait), nanoseconds(0));
  EXPECT_GE(meter.times()[0].spent(StepPhase::kCompute), nanoseconds(100'000));
}

TEST(StepMeter, AStepThatIsNotFinishedDoesNotCountNorDoesItsInput) {
  StepMeter meter(2);
  meter.measure(StepMeasuring::kOn);
  {
    const StepMeter::InputScope input(&meter);
    spend(nanoseconds(100'000));
  }
  meter.begin_step();
  step(meter, 2);
  EXPECT_EQ(meter.times()[1].steps, 1);
  EXPECT_EQ(meter.times()[1].spent(StepPhase::kInput), nanoseconds(0));
}

TEST(StepMeter, TurningOffTakesEffectAfterTheRunningStep) {
  StepMeter meter(2);
  meter.measure(StepMeasuring::kOn);
  meter.begin_step();
  meter.measure(StepMeasuring::kOff);
  meter.finish_step();
  step(meter, 2);
  EXPECT_EQ(meter.times()[0].steps, 1);
  meter.reset();
  EXPECT_EQ(meter.times()[0].steps, 0);
  EXPECT_EQ(meter.times()[0].total(), nanoseconds(0));
}

TEST(StepMeter, InputMayBeFetchedOnAnotherThread) {
  StepMeter meter(1);
  meter.measure(StepMeasuring::kOn);
  std::thread([&] {
    const StepMeter::InputScope input(&meter);
    spend(nanoseconds(50'000));
  }).join();
  step(meter, 1);
  EXPECT_GE(meter.times()[0].spent(StepPhase::kInput), nanoseconds(50'000));
}

}  // namespace
}  // namespace brigade::distribute
