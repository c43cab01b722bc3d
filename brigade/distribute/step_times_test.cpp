#include "brigade/distribute/step_times.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <numeric>
#include <ostream>
#include <thread>

#include "brigade/device/stream.h"
#include "brigade/device/testing/fake_device.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/optim/adam.h"

namespace brigade::distribute {
namespace {

using comm::StepPhase;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

void spend(nanoseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
}

StepTimes times_of(int input, int compute, int wait, int communication, int update) {
  StepTimes times{.steps = 1};
  times.phases = {nanoseconds(input), nanoseconds(compute), nanoseconds(wait),
                  nanoseconds(communication), nanoseconds(update)};
  return times;
}

double sum_of_shares(const StepTimes& times) {
  return std::accumulate(comm::kStepPhases.begin(), comm::kStepPhases.end(), 0.0,
                         [&](double sum, StepPhase phase) { return sum + times.fraction(phase); });
}

struct StepTimesCase {
  std::string name;
  std::function<std::unique_ptr<Strategy>()> make;
  bool has_peers = true;
};
void PrintTo(const StepTimesCase& c, std::ostream* out) {
  *out << c.name;
}

std::unique_ptr<Strategy> central(variables::Caching caching,
                                  std::shared_ptr<const comm::CrossDeviceOps> ops = nullptr) {
  CentralStorageOptions options = central_cpus(2, caching);
  options.cross_device_ops = std::move(ops);
  return std::make_unique<CentralStorageStrategy>(options);
}

class EveryStrategy : public testing::TestWithParam<StepTimesCase> {
 protected:
  std::unique_ptr<Strategy> strategy_ = GetParam().make();
  Replicated<AffineModule> model_ = strategy_->create<AffineModule>();
  Optimizer optimizer_ = strategy_->optimizer(model_, optim::Adam{});

  void train(int steps, const std::function<void(ReplicaContext&)>& before = {}) {
    const auto batches = input::from_tensor_slices(at::ones({4 * steps, 3}, at::kDouble)).batch(4);
    for (const auto& batch : strategy_->distribute(batches)) {
      strategy_->run(
          [&](ReplicaContext& context, const at::Tensor& own) {
            if (before) before(context);
            optimizer_.minimize(model_(own).sum(1));
          },
          batch);
    }
  }
};

class StrategyOfTwo : public EveryStrategy {};

TEST_P(EveryStrategy, FractionsOfAStepAddUpToOneInEachReplica) {
  strategy_->measure_steps(StepMeasuring::kOn);
  train(3);
  const std::vector<StepTimes> replicas = strategy_->step_times();
  ASSERT_EQ(static_cast<int>(replicas.size()), strategy_->num_replicas_in_sync());
  for (const StepTimes& times : replicas) {
    EXPECT_EQ(times.steps, 3);
    EXPECT_NEAR(sum_of_shares(times), 1.0, 1e-9);
    EXPECT_EQ(times.total(), replicas.front().total()) << "a step takes all replicas as long";
    EXPECT_GT(times.fraction(StepPhase::kInput), 0.0);
    EXPECT_GT(times.fraction(StepPhase::kCompute), 0.0);
    EXPECT_EQ(times.fraction(StepPhase::kWait) > 0.0, GetParam().has_peers);
    EXPECT_EQ(times.fraction(StepPhase::kCommunication) > 0.0, GetParam().has_peers);
  }
  EXPECT_GT(replicas.front().fraction(StepPhase::kUpdate), 0.0);
}

TEST_P(StrategyOfTwo, TheOthersWaitForASlowReplica) {
  train(1);  // memory is touched, threads are awake
  strategy_->measure_steps(StepMeasuring::kOn);
  for (const int slow : {0, 1}) {
    strategy_->reset_step_times();
    train(2, [&](ReplicaContext& context) {
      if (context.replica_id() == slow) spend(milliseconds(60));
    });
    const std::vector<StepTimes> replicas = strategy_->step_times();
    EXPECT_GT(replicas[slow].fraction(StepPhase::kCompute), 0.5)
        << describe_step_breakdown(replicas);
    EXPECT_GT(replicas[1 - slow].fraction(StepPhase::kWait), 0.5)
        << describe_step_breakdown(replicas);
    EXPECT_LT(replicas[slow].fraction(StepPhase::kWait), 0.5) << describe_step_breakdown(replicas);
  }
}

TEST_P(EveryStrategy, NothingIsMeasuredByDefault) {
  train(2);
  EXPECT_EQ(strategy_->step_times().front().steps, 0);
  EXPECT_EQ(strategy_->step_times().front().total(), nanoseconds(0));
}

const std::vector<StepTimesCase> kOfTwo{
    {"mirrored", [] { return std::make_unique<MirroredStrategy>(cpus(2)); }},
    {"mirrored, reduced by cross-device ops",
     [] {
       MirroredOptions options = cpus(2);
       options.cross_device_ops = std::make_shared<comm::AllReduce>();
       return std::make_unique<MirroredStrategy>(options);
     }},
    {"central storage", [] { return central(variables::Caching::kWhereNeeded); }},
    {"central storage, cached", [] { return central(variables::Caching::kAlways); }},
    {"central storage, reduced by cross-device ops",
     [] {
       return central(variables::Caching::kAlways, std::make_shared<comm::ReductionToOneDevice>());
     }},
};

INSTANTIATE_TEST_SUITE_P(
    OneDevice, EveryStrategy,
    testing::Values(
        StepTimesCase{"one device", [] { return std::make_unique<OneDeviceStrategy>("cpu:0"); },
                      false},
        StepTimesCase{"central storage of one",
                      [] { return std::make_unique<CentralStorageStrategy>(central_cpus(1)); },
                      false}));
INSTANTIATE_TEST_SUITE_P(OfTwo, EveryStrategy, testing::ValuesIn(kOfTwo));
INSTANTIATE_TEST_SUITE_P(OfTwo, StrategyOfTwo, testing::ValuesIn(kOfTwo));

TEST(StepTimes, AStepThatFailedDoesNotCount) {
  MirroredStrategy strategy(cpus(2));
  strategy.measure_steps(StepMeasuring::kOn);
  EXPECT_THROW(strategy.run([](ReplicaContext& context) {
    if (context.replica_id() == 1) throw Error(ErrorCode::kDataLoss, "torn page");
    context.barrier();
  }),
               Error);
  EXPECT_EQ(strategy.step_times()[0].steps, 0);
  strategy.run([](ReplicaContext& context) { context.barrier(); });
  EXPECT_EQ(strategy.step_times()[1].steps, 1);
}

TEST(StepTimes, AMergeCallIsCommunicationInReplicaZeroAndWaitInTheOthers) {
  MirroredStrategy strategy(cpus(2));
  strategy.measure_steps(StepMeasuring::kOn);
  strategy.run([](ReplicaContext& context) {
    context.merge_call([](Strategy&) { spend(milliseconds(60)); });
  });
  const std::vector<StepTimes> replicas = strategy.step_times();
  EXPECT_GT(replicas[0].fraction(StepPhase::kCommunication), 0.5)
      << describe_step_breakdown(replicas);
  EXPECT_GT(replicas[1].fraction(StepPhase::kWait), 0.5) << describe_step_breakdown(replicas);
}

TEST(StepTimes, CannotBeReadWhileReplicasRun) {
  MirroredStrategy strategy(cpus(2));
  strategy.run([&](ReplicaContext& context) {
    EXPECT_EQ(error_from([&] { strategy.step_times(); }).code(), ErrorCode::kFailedPrecondition);
    context.merge_call([](Strategy& merged) {
      EXPECT_EQ(error_from([&] { merged.measure_steps(StepMeasuring::kOn); }).code(),
                ErrorCode::kFailedPrecondition);
    });
  });
}

TEST(DescribeStepBreakdown, IsOneLineForSimilarReplicas) {
  const std::vector<StepTimes> replicas{times_of(10, 900, 30, 20, 40),
                                        times_of(10, 880, 50, 20, 40)};
  EXPECT_EQ(describe_step_breakdown(replicas),
            "step breakdown  input 1 %, compute 89 %, wait 4 %, communication 2 %, update 4 %");
}

TEST(DescribeStepBreakdown, ListsReplicasThatDiffer) {
  const std::vector<StepTimes> replicas{times_of(0, 90, 0, 0, 10), times_of(0, 50, 40, 0, 10)};
  EXPECT_EQ(
      describe_step_breakdown(replicas),
      "step breakdown  replica 0: input 0 %, compute 90 %, wait 0 %, communication 0 %, update "
      "10 %; replica 1: input 0 %, compute 50 %, wait 40 %, communication 0 %, update 10 %");
}

TEST(DescribeStepBreakdown, IsEmptyIfNothingWasMeasured) {
  EXPECT_EQ(describe_step_breakdown(std::vector<StepTimes>(2)), "");
  EXPECT_EQ(StepTimes{}.fraction(StepPhase::kCompute), 0.0);
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

using device::testing::FakeDevice;

constexpr nanoseconds ms(int count) {
  return milliseconds(count);
}

/// What the replicas of a fake card do in a step: [replica], in milliseconds.
struct CardStep {
  double compute = 0;
  double communication = 0;
  double update = 0;
};

void step_on_card(StepMeter& meter, const std::vector<c10::Stream>& streams,
                  const std::vector<CardStep>& work) {
  FakeDevice& card = FakeDevice::get();
  meter.begin_step();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const auto replica = static_cast<int>(i);
    const device::StreamScope on_stream(streams[i]);
    StepMeter::ReplicaScope scope(meter, replica);
    scope.has_input();
    card.compute_for(work[i].compute);
    {
      const comm::PhaseScope phase(meter.clock(replica), StepPhase::kCommunication);
      card.compute_for(work[i].communication);
    }
    const comm::PhaseScope phase(meter.clock(replica), StepPhase::kUpdate);
    card.compute_for(work[i].update);
  }
  meter.finish_step();
}

std::vector<c10::Stream> streams_of_card(StepMeter& meter, int replicas) {
  FakeDevice::get();
  std::vector<c10::Stream> streams;
  for (int replica = 0; replica < replicas; ++replica) {
    streams.push_back(device::make_stream({.torch_device = FakeDevice::device()}));
    meter.use_stream(replica, streams.back());
  }
  meter.measure(StepMeasuring::kOn);
  return streams;
}

TEST(StepMeter, OnCardsPhasesAreTheCardsTimeAndNoStepWaitsForIt) {
  FakeDevice& card = FakeDevice::get();
  StepMeter meter(2);
  const auto streams = streams_of_card(meter, 2);
  const int waits = card.host_waits();
  for (int i = 0; i < 3; ++i)
    step_on_card(meter, streams,
                 {{.compute = 10, .communication = 3, .update = 1}, {.compute = 6}});
  EXPECT_EQ(card.host_waits(), waits);
  const std::vector<StepTimes> times = meter.times();
  EXPECT_EQ(times[0].steps, 3);
  EXPECT_EQ(times[0].spent(StepPhase::kCompute), ms(30));
  EXPECT_EQ(times[0].spent(StepPhase::kCommunication), ms(9));
  EXPECT_EQ(times[0].spent(StepPhase::kUpdate), ms(3));
  EXPECT_EQ(times[0].spent(StepPhase::kWait), ms(0));
  EXPECT_EQ(times[1].spent(StepPhase::kCompute), ms(18));
  EXPECT_EQ(times[1].spent(StepPhase::kWait), ms(24)) << "for the slower replica";
  for (const StepTimes& each : times) EXPECT_NEAR(sum_of_shares(each), 1.0, 1e-9);
  step_on_card(meter, streams, {{.compute = 10}, {.compute = 10}});
  EXPECT_EQ(meter.times()[0].spent(StepPhase::kCompute), ms(40)) << "sums go on";
}

TEST(StepMeter, OnACardInputIsTheTimeForWhichItsStreamWaitsForTheBatch) {
  FakeDevice& card = FakeDevice::get();
  StepMeter meter(1);
  const auto streams = streams_of_card(meter, 1);
  const c10::Stream copies = device::make_stream({.torch_device = FakeDevice::device()});
  meter.begin_step();
  {
    device::StreamFence copied;
    {
      const device::StreamScope on_copies(copies);
      card.compute_for(1e6);  // later than whatever the replica's stream has done
      copied.record(FakeDevice::device());
    }
    const device::StreamScope on_stream(streams[0]);
    StepMeter::ReplicaScope scope(meter, 0);
    copied.wait(FakeDevice::device());
    scope.has_input();
    card.compute_for(5);
  }
  meter.finish_step();
  const StepTimes times = meter.times().front();
  EXPECT_EQ(times.spent(StepPhase::kCompute), ms(5));
  EXPECT_GT(times.fraction(StepPhase::kInput), 0.9);
}

TEST(StepMeter, OnACardOtherWorkBetweenStepsCountsNoMoreThanTheHostsInput) {
  FakeDevice& card = FakeDevice::get();
  StepMeter meter(1);
  const auto streams = streams_of_card(meter, 1);
  step_on_card(meter, streams, {{.compute = 5}});
  {
    const device::StreamScope on_stream(streams[0]);
    card.compute_for(1e6);  // such as an evaluation
  }
  step_on_card(meter, streams, {{.compute = 5}});
  EXPECT_EQ(meter.times().front().total(), ms(10));
}

TEST(StepMeter, OnACardAStepThatIsNotFinishedDoesNotCount) {
  StepMeter meter(1);
  const auto streams = streams_of_card(meter, 1);
  meter.begin_step();
  {
    const device::StreamScope on_stream(streams[0]);
    StepMeter::ReplicaScope scope(meter, 0);
    scope.has_input();
    FakeDevice::get().compute_for(70);
  }
  step_on_card(meter, streams, {{.compute = 5}});
  EXPECT_EQ(meter.times().front().steps, 1);
  EXPECT_EQ(meter.times().front().total(), ms(5));
  meter.reset();
  EXPECT_EQ(meter.times().front().total(), ms(0));
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
