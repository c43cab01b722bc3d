#include "brigade/train/graph/operation_recorder.h"

#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/train/testing/tick_clock.h"

namespace brigade::train {
namespace {

std::vector<Operation> named(const OperationRecord& record, const std::string& name) {
  std::vector<Operation> found;
  std::copy_if(record.operations.begin(), record.operations.end(), std::back_inserter(found),
               [&](const Operation& operation) { return operation.name == name; });
  return found;
}

void multiply() {
  const at::Tensor x = at::ones({2}).requires_grad_();
  (x * x).sum().backward();
}

TEST(OperationRecorder, RecordsReplicasOnSeparateThreads) {
  const TickClock clock;
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  OperationRecorder recorder(clock);
  recorder.start();
  strategy.run([](distribute::ReplicaContext&) { multiply(); });
  const OperationRecord record = recorder.stop();
  for (const char* name : {"aten::mul", "MulBackward0"}) {
    std::set<std::int64_t> replicas;
    std::set<std::uint64_t> threads;
    for (const Operation& each : named(record, name)) {
      EXPECT_GT(each.duration.count(), 0) << name;
      replicas.insert(each.replica);
      threads.insert(each.thread);
    }
    EXPECT_EQ(replicas, (std::set<std::int64_t>{0, 1})) << name;
    EXPECT_EQ(threads.size(), 2u) << name;
  }
  EXPECT_EQ(record.backward_roots.size(), 2u);
}

TEST(OperationRecorder, SequenceNumbersLinkAnOperationToItsBackward) {
  const TickClock clock;
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  OperationRecorder recorder(clock);
  recorder.start();
  strategy.run([](distribute::ReplicaContext&) { multiply(); });
  const OperationRecord record = recorder.stop();
  const auto backward = named(record, "MulBackward0");
  ASSERT_EQ(backward.size(), 1u);
  EXPECT_EQ(backward[0].kind, Operation::Kind::kBackward);
  // Another multiplication is part of the backward pass and has no number.
  EXPECT_EQ(named(record, "aten::mul").front().sequence, backward[0].sequence);
}

TEST(OperationRecorder, RecordsNothingAndLeavesNothingWhenStopped) {
  const TickClock clock;
  OperationRecorder recorder(clock);
  multiply();
  EXPECT_TRUE(recorder.stop().operations.empty());
  recorder.start();
  EXPECT_TRUE(at::hasThreadLocalCallbacks());
  recorder.stop();
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
  multiply();
  EXPECT_TRUE(recorder.stop().operations.empty());
  {
    OperationRecorder dropped(clock);
    dropped.start();
  }
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
}

TEST(OperationRecorder, SeveralRecordersMayStopInAnyOrder) {
  const TickClock clock;
  OperationRecorder first(clock), second(clock);
  first.start();
  second.start();
  multiply();
  const std::size_t both = first.stop().operations.size();
  EXPECT_GT(both, 0u);
  multiply();
  EXPECT_EQ(second.stop().operations.size(), 2 * both);
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
}

}  // namespace
}  // namespace brigade::train
