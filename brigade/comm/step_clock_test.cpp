#include "brigade/comm/step_clock.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace brigade::comm {
namespace {

using std::chrono::nanoseconds;

StepClock::Time at(int time) {
  return StepClock::Time(nanoseconds(time));
}

nanoseconds spent(const StepClock& clock, StepPhase phase) {
  return clock.times()[static_cast<std::size_t>(phase)];
}

TEST(StepClock, OnePhaseIsActiveAtEveryMoment) {
  StepClock clock;
  clock.start(StepPhase::kWait, at(100));
  EXPECT_EQ(clock.enter(StepPhase::kCompute, at(103)), StepPhase::kWait);
  EXPECT_EQ(clock.enter(StepPhase::kUpdate, at(110)), StepPhase::kCompute);
  EXPECT_EQ(clock.enter(StepPhase::kCompute, at(130)), StepPhase::kUpdate);
  clock.stop(at(200));
  EXPECT_EQ(spent(clock, StepPhase::kWait), nanoseconds(3));
  EXPECT_EQ(spent(clock, StepPhase::kCompute), nanoseconds(7 + 70));
  EXPECT_EQ(spent(clock, StepPhase::kUpdate), nanoseconds(20));
  EXPECT_EQ(spent(clock, StepPhase::kInput), nanoseconds(0));
}

TEST(StepClock, StartResetsTheTimes) {
  StepClock clock;
  clock.start(StepPhase::kCompute, at(0));
  clock.stop(at(50));
  clock.start(StepPhase::kWait, at(70));
  clock.stop(at(71));
  EXPECT_EQ(spent(clock, StepPhase::kCompute), nanoseconds(0));
  EXPECT_EQ(spent(clock, StepPhase::kWait), nanoseconds(1));
}

TEST(PhaseScope, ThePreviousPhaseResumesAfterIt) {
  StepClock clock;
  clock.start(StepPhase::kCompute, std::chrono::steady_clock::now());
  {
    const PhaseScope outer(&clock, StepPhase::kCommunication);
    { const PhaseScope inner(&clock, StepPhase::kWait); }
    EXPECT_EQ(clock.enter(StepPhase::kCommunication), StepPhase::kCommunication);
  }
  EXPECT_EQ(clock.enter(StepPhase::kCompute), StepPhase::kCompute);
}

TEST(PhaseScope, WithoutAClockDoesNothing) {
  const PhaseScope nothing(nullptr, StepPhase::kWait);
}

TEST(StepPhase, HaveDistinctNames) {
  std::set<std::string_view> names;
  for (const StepPhase phase : kStepPhases) names.insert(to_string(phase));
  EXPECT_EQ(names.size(), kStepPhases.size());
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace brigade::comm
