#include "brigade/variables/variable.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "brigade/base/error.h"
#include "brigade/comm/replica.h"
#include "brigade/comm/testing/rank_threads.h"
#include "brigade/variables/variable_store.h"

namespace brigade::variables {
namespace {

std::vector<c10::Device> cpus(int count) {
  return std::vector<c10::Device>(static_cast<std::size_t>(count), c10::Device(c10::kCPU));
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

at::Tensor scalar(double value) {
  return at::full({}, value, at::kDouble);
}

VariableSpec spec_of(Synchronization synchronization, Aggregation aggregation, double initial = 1) {
  return {.name = "v",
          .initial = scalar(initial),
          .trainable = false,
          .synchronization = synchronization,
          .aggregation = aggregation};
}

VariableSpec trained_spec_of(Synchronization synchronization, Aggregation aggregation,
                             double initial) {
  VariableSpec spec = spec_of(synchronization, aggregation, initial);
  spec.trainable = true;
  return spec;
}

/// Calls `body(replica number)` in two replicas; returns whether any threw.
bool fails_in_replicas(const std::function<void(int)>& body) {
  bool failed = false;
  for (const auto& error : comm::run_ranks(2, [&](comm::Communicator& communicator) {
         const comm::Replica replica{.id = communicator.rank(),
                                     .count = 2,
                                     .local_id = communicator.rank(),
                                     .communicator = &communicator};
         const base::AmbientScope<const comm::Replica> replica_scope(comm::kReplicaSlot, &replica);
         body(replica.id);
       })) {
    failed = failed || error;
  }
  return failed;
}

std::vector<double> components(const Variable& variable) {
  std::vector<double> values;
  for (int replica = 0; replica < variable.num_components(); ++replica)
    values.push_back(variable.component(replica).item<double>());
  return values;
}

using Values = std::vector<double>;

TEST(VariableSpec, RefusesInvalidSpecifications) {
  VariableSpec good = spec_of(Synchronization::kAuto, Aggregation::kNone);
  EXPECT_NO_THROW(validate(good));
  const auto refused = [&](const std::function<void(VariableSpec&)>& change) {
    VariableSpec spec = good;
    change(spec);
    return !message_of([&] { validate(spec); }).empty();
  };
  EXPECT_TRUE(refused([](auto& s) { s.name = ""; }));
  EXPECT_TRUE(refused([](auto& s) { s.name = "two words"; }));
  EXPECT_TRUE(refused([](auto& s) { s.initial = at::Tensor(); }));
  EXPECT_TRUE(refused([](auto& s) { s.synchronization = Synchronization::kNone; }));
  EXPECT_TRUE(refused([](auto& s) {
    s.initial = at::full({}, 1, at::kLong);
    s.aggregation = Aggregation::kMean;
  }));
  EXPECT_TRUE(refused([](auto& s) {
    s.synchronization = Synchronization::kOnRead;
    s.trainable = true;
  }));
  VariableSpec matrix = good;
  matrix.initial = at::full({2, 3}, 1.0);
  matrix.memory_format = at::MemoryFormat::ChannelsLast;
  const std::string message = message_of([&] { validate(matrix); });
  EXPECT_NE(message.find("'v' has the memory format ChannelsLast and shape [2, 3]"),
            std::string::npos)
      << message;
  EXPECT_TRUE(refused([](auto& s) { s.memory_format = at::MemoryFormat::Preserve; }));
}

TEST(Variable, NamesItsRulesInMessages) {
  EXPECT_EQ(to_string(Synchronization::kOnRead), "on_read");
  EXPECT_EQ(to_string(Aggregation::kOnlyFirstReplica), "only_first_replica");
}

TEST(Variable, AutoMeansOnWrite) {
  VariableStore store(cpus(2), StorageSharing::kOneStorage);
  EXPECT_EQ(store.create(spec_of(Synchronization::kAuto, Aggregation::kNone)).synchronization(),
            Synchronization::kOnWrite);
}

/// kOnWrite must behave the same whether or not replicas share memory.
class OnWrite : public ::testing::TestWithParam<StorageSharing> {
 protected:
  Variable make(Aggregation aggregation) {
    return store_.create(trained_spec_of(Synchronization::kOnWrite, aggregation, 1));
  }
  VariableStore store_{cpus(2), GetParam()};
};

TEST_P(OnWrite, AssignInReplicasAggregates) {
  const auto assigned = [&](Aggregation aggregation) {
    const Variable variable = make(aggregation);
    EXPECT_FALSE(fails_in_replicas([&](int id) { variable.assign(scalar(id + 1)); }));
    return components(variable);
  };
  EXPECT_EQ(assigned(Aggregation::kSum), Values({3, 3}));
  EXPECT_EQ(assigned(Aggregation::kMean), Values({1.5, 1.5}));
  EXPECT_EQ(assigned(Aggregation::kOnlyFirstReplica), Values({1, 1}));
}

TEST_P(OnWrite, AssignAddInReplicasAggregatesTheIncrements) {
  const auto added = [&](Aggregation aggregation) {
    const Variable variable = make(aggregation);
    EXPECT_FALSE(fails_in_replicas([&](int id) { variable.assign_add(scalar(id + 1)); }));
    return components(variable);
  };
  EXPECT_EQ(added(Aggregation::kSum), Values({4, 4}));
  EXPECT_EQ(added(Aggregation::kMean), Values({2.5, 2.5}));
  EXPECT_EQ(added(Aggregation::kOnlyFirstReplica), Values({2, 2}));
}

TEST_P(OnWrite, WithoutAggregationReplicasMustAgree) {
  const Variable variable = make(Aggregation::kNone);
  EXPECT_FALSE(fails_in_replicas([&](int) { variable.assign(scalar(8)); }));
  EXPECT_EQ(components(variable), Values({8, 8}));
  EXPECT_TRUE(fails_in_replicas([&](int id) { variable.assign(scalar(id)); }));
  EXPECT_EQ(components(variable), Values({8, 8})) << "a refused write must not leave a trace";
}

TEST_P(OnWrite, AReplicaReadsWhatItWrote) {
  const Variable variable = make(Aggregation::kSum);
  EXPECT_FALSE(fails_in_replicas([&](int id) {
    for (int round = 1; round <= 20; ++round) {
      variable.assign(scalar(round * (id + 1)));
      EXPECT_EQ(variable.read().item<double>(), 3 * round);
    }
  }));
}

TEST_P(OnWrite, OutsideAssignSetsEveryComponent) {
  const Variable variable = make(Aggregation::kSum);
  variable.assign(scalar(10));
  EXPECT_EQ(components(variable), Values({10, 10}));
  variable.assign_add(scalar(2));
  EXPECT_EQ(components(variable), Values({12, 12}));
  EXPECT_EQ(variable.read().item<double>(), 12);
}

TEST_P(OnWrite, OwnWritesAreNotReportedAsForeign) {
  const Variable variable = make(Aggregation::kSum);
  variable.assign(scalar(10));
  variable.assign_add(scalar(10));
  EXPECT_FALSE(fails_in_replicas([&](int id) {
    variable.assign(scalar(1));
    variable.assign_add(scalar(1));
    variable.check_untouched(id);
  }));
}

TEST_P(OnWrite, AChangeInPlaceByOtherCodeIsNamed) {
  const Variable variable = make(Aggregation::kNone);
  variable.check_untouched(0);
  variable.component(1).detach().add_(1);
  EXPECT_NO_THROW(variable.check_untouched(0));
  EXPECT_NE(message_of([&] { variable.check_untouched(1); }).find("'v'"), std::string::npos);
}

TEST_P(OnWrite, MovedMemoryIsNamed) {
  const Variable variable = make(Aggregation::kNone);
  at::Tensor component = variable.component(1);
  component.set_data(component.detach().clone());
  EXPECT_NE(message_of([&] { variable.check_untouched(1); }).find("moved"), std::string::npos);
  at::Tensor other = variable.component(0);
  other.set_data(other.detach().to(at::kFloat));
  EXPECT_NE(message_of([&] { variable.check_untouched(0); }).find("moved"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(StorageSharing, OnWrite,
                         ::testing::Values(StorageSharing::kOneStorage,
                                           StorageSharing::kOneCopyEach));

Variable on_read(VariableStore& store, Aggregation aggregation) {
  const Variable variable = store.create(spec_of(Synchronization::kOnRead, aggregation, 0));
  EXPECT_FALSE(fails_in_replicas([&](int id) { variable.assign(scalar(id + 1)); }));
  EXPECT_EQ(components(variable), Values({1, 2})) << "a write in a replica is that replica's";
  return variable;
}

TEST(OnRead, ReadingOutsideAggregates) {
  VariableStore store(cpus(2), StorageSharing::kOneStorage);
  EXPECT_EQ(on_read(store, Aggregation::kSum).read().item<double>(), 3);
  EXPECT_EQ(on_read(store, Aggregation::kMean).read().item<double>(), 1.5);
  EXPECT_EQ(on_read(store, Aggregation::kOnlyFirstReplica).read().item<double>(), 1);
  EXPECT_NE(message_of([&] { on_read(store, Aggregation::kNone).read(); }).find("'v'"),
            std::string::npos);
}

TEST(OnRead, TheMeanOfHalfIsComputedInFloat32) {
  VariableStore store(cpus(2), StorageSharing::kOneCopyEach);
  VariableSpec spec = spec_of(Synchronization::kOnRead, Aggregation::kMean);
  spec.initial = at::full({}, 4e4, at::kHalf);
  const at::Tensor mean = store.create(spec).read();
  EXPECT_EQ(mean.scalar_type(), at::kHalf);
  EXPECT_EQ(mean.item<double>(), 4e4);
}

TEST(OnRead, AssigningOutsideIsReadBack) {
  VariableStore store(cpus(2), StorageSharing::kOneStorage);
  const auto assigned = [&](Aggregation aggregation) {
    const Variable variable = on_read(store, aggregation);
    variable.assign(scalar(10));
    EXPECT_EQ(variable.read().item<double>(), 10);
    return components(variable);
  };
  EXPECT_EQ(assigned(Aggregation::kSum), Values({5, 5}));
  EXPECT_EQ(assigned(Aggregation::kMean), Values({10, 10}));
  EXPECT_EQ(assigned(Aggregation::kOnlyFirstReplica), Values({10, 10}));
}

TEST(OnRead, AnIntegralSumThatDoesNotDivideIsReadBack) {
  VariableStore store(cpus(4), StorageSharing::kOneStorage);
  const Variable count = store.create({.name = "count",
                                       .initial = at::full({2}, 0, at::kLong),
                                       .trainable = false,
                                       .synchronization = Synchronization::kOnRead,
                                       .aggregation = Aggregation::kSum});
  count.assign(at::tensor({10, -7}, at::kLong));
  EXPECT_TRUE(at::equal(count.read(), at::tensor({10, -7}, at::kLong)));
}

TEST(OnRead, AddingOutsideToASumIsRefused) {
  VariableStore store(cpus(2), StorageSharing::kOneStorage);
  const Variable sum = on_read(store, Aggregation::kSum);
  EXPECT_NE(message_of([&] { sum.assign_add(scalar(1)); }).find("assign"), std::string::npos);
  EXPECT_EQ(components(sum), Values({1, 2}));
  EXPECT_FALSE(fails_in_replicas([&](int) { sum.assign_add(scalar(1)); }));
  EXPECT_EQ(components(sum), Values({2, 3}));
}

TEST(Variable, IsACopyOutsideAndTheComponentInside) {
  VariableStore store(cpus(2), StorageSharing::kOneStorage);
  const Variable variable = store.create(spec_of(Synchronization::kAuto, Aggregation::kNone));
  variable.read().add_(5);
  EXPECT_EQ(components(variable), Values({1, 1}));
  EXPECT_FALSE(fails_in_replicas([&](int id) {
    EXPECT_TRUE(variable.read().is_same(variable.component(id)));
    EXPECT_TRUE(variable.local().is_same(variable.component(id)));
  }));
  EXPECT_TRUE(variable.local().is_same(variable.component(0)));
}

TEST(Variable, RefusesOtherShapes) {
  VariableStore store(cpus(1), StorageSharing::kOneStorage);
  const Variable variable = store.create(spec_of(Synchronization::kAuto, Aggregation::kNone));
  EXPECT_NE(message_of([&] { variable.assign(at::full({2}, 1.0)); }).find("[2]"),
            std::string::npos);
  EXPECT_FALSE(message_of([&] { variable.assign_add(at::Tensor()); }).empty());
}

TEST(Variable, OfAnotherStrategyIsRefusedByName) {
  VariableStore store(cpus(1), StorageSharing::kOneStorage);
  const Variable variable = store.create(spec_of(Synchronization::kAuto, Aggregation::kNone));
  EXPECT_FALSE(fails_in_replicas([&](int id) {
    if (id == 0) return;
    EXPECT_NE(message_of([&] { variable.read(); }).find("'v'"), std::string::npos);
  }));
}

TEST(Variable, AnUpdateBetweenForwardAndBackwardIsNoticedInEveryReplica) {
  VariableStore store(cpus(2), StorageSharing::kOneStorage);
  const Variable variable =
      store.create(trained_spec_of(Synchronization::kAuto, Aggregation::kNone, 2));
  for (const int replica : {0, 1}) {
    const at::Tensor x = variable.component(replica);
    const at::Tensor square = x * x;
    variable.assign(scalar(0));
    EXPECT_THROW(square.backward(), c10::Error) << replica;
  }
}

}  // namespace
}  // namespace brigade::variables
