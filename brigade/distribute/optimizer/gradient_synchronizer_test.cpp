// All synchronizers (gradient_synchronizer.cpp, controller_synchronizer.cpp) must make the same
// updates.
#include "brigade/distribute/optimizer/gradient_synchronizer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <ostream>
#include <thread>

#include "brigade/comm/testing/rank_threads.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/lars.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {
namespace {

using variables::Caching;
using variables::StorageSharing;

enum class Reduce { kDefault, kByOps };

struct Case {
  int replicas;
  StorageSharing sharing;
  Caching caching = Caching::kWhereNeeded;
  ControllerWork work = ControllerWork::kSharded;
  Reduce reduce = Reduce::kDefault;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.replicas
       << (c.sharing == StorageSharing::kOneStorage    ? " on one storage"
           : c.sharing == StorageSharing::kOneCopyEach ? " with copies"
                                                       : " under a controller")
       << (c.caching == Caching::kAlways ? ", cached" : "")
       << (c.work == ControllerWork::kFirstReplica ? ", updated by the first" : "")
       << (c.reduce == Reduce::kByOps ? ", reduced by cross-device ops" : "");
}

/// Variables of odd sizes, one of them larger than a block of ShardedSynchronizer, one not trained.
struct Odd : torch::nn::Module {
  Odd() {
    small = register_parameter("small", at::full({3}, 1.0, at::kDouble));
    fixed = register_parameter("fixed", at::full({5}, 1.0, at::kDouble), false);
    large = register_parameter("large", at::full({41, 1'001}, 1.0, at::kDouble));
    single = register_parameter("single", at::full({}, 1.0F));
    last = register_parameter("last", at::full({100}, 1.0, at::kDouble));
  }
  at::Tensor small, fixed, large, single, last;
};

struct Applied {
  Applied(const Case& c, const optim::UpdateRulePtr& rule)
      : group(std::make_shared<comm::LocalGroup>(
            c.replicas, comm::LocalGroupOptions{.timeout = std::chrono::seconds(60),
                                                .spin = std::chrono::microseconds(0)})),
        communicators(comm::make_local_communicators(group)),
        store(
            std::vector<c10::Device>(static_cast<std::size_t>(c.replicas), c10::Device(c10::kCPU)),
            c.sharing, {.caching = c.caching}) {
    for (int replica = 0; replica < c.replicas; ++replica)
      modules.push_back(std::make_shared<Odd>());
    variables = store.adopt(modules);
    state = std::make_shared<optim::OptimizerState>(rule, variables,
                                                    std::span<const optim::ParameterGroup>());
    synchronizer = make_synchronizer(c);
  }

  std::unique_ptr<GradientSynchronizer> make_synchronizer(const Case& c) const {
    const auto ops = c.reduce == Reduce::kByOps ? std::make_shared<comm::AllReduce>() : nullptr;
    SynchronizerContext context{.state = state, .group = group, .communicators = {}};
    for (const auto& communicator : communicators)
      context.communicators.push_back(communicator.get());
    if (c.sharing == StorageSharing::kController)
      return controller_synchronizer(ops, c.work)(context);
    const SynchronizerFactory make = c.sharing == StorageSharing::kOneStorage && c.replicas > 1
                                         ? make_sharded_synchronizer
                                         : make_replica_synchronizer;
    return with_cross_device_ops(ops, make)(context);
  }

  template <class Body>
  void in_replicas(const Body& body) {
    std::vector<std::thread> threads;
    for (int replica = 0; replica < group->world_size(); ++replica)
      threads.emplace_back([&, replica] { body(replica); });
    for (std::thread& thread : threads) thread.join();
  }

  std::shared_ptr<comm::LocalGroup> group;
  std::vector<std::unique_ptr<comm::Communicator>> communicators;
  variables::VariableStore store;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::vector<variables::Variable> variables;
  std::shared_ptr<optim::OptimizerState> state;
  std::unique_ptr<GradientSynchronizer> synchronizer;
};

using Row = std::vector<at::Tensor>;  // one replica's gradients, in the order of the state

/// Row r of `replicas` rows of gradients for the state's four variables.
std::vector<Row> random_rows(const optim::OptimizerState& state, int replicas) {
  std::vector<Row> rows(static_cast<std::size_t>(replicas));
  for (Row& row : rows) {
    for (const variables::Variable& variable : state.variables())
      row.push_back(at::rand(variable.shape(), variable.dtype()) - 0.5);
  }
  return rows;
}

Row sum_of(const std::vector<Row>& rows) {
  Row sums = rows.front();
  for (std::size_t r = 1; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i] + rows[r][i];
  }
  return sums;
}

class AppliedGradients : public ::testing::TestWithParam<Case> {
 protected:
  static optim::UpdateRulePtr rule() { return optim::AdamW{.weight_decay = 0.1}.rule(); }
  Applied ours_{GetParam(), rule()};
  Applied reference_{{1, StorageSharing::kOneStorage}, rule()};

  void expect_as_reference() const {
    for (std::size_t i = 0; i < ours_.variables.size(); ++i) {
      for (int replica = 0; replica < GetParam().replicas; ++replica) {
        EXPECT_TRUE(ours_.variables[i].component(replica).allclose(
            reference_.variables[i].component(0), 1e-6, 1e-12))
            << ours_.variables[i].name() << " in replica " << replica;
        EXPECT_TRUE(
            at::equal(ours_.variables[i].component(replica), ours_.variables[i].component(0)));
      }
    }
  }
};

TEST_P(AppliedGradients, AreTheSumOverTheReplicas) {
  for (int step = 0; step < 3; ++step) {
    const auto rows = random_rows(*ours_.state, GetParam().replicas);
    ours_.in_replicas([&](int replica) {
      ours_.synchronizer->apply(replica, rows[replica], GradientState::kLocal);
    });
    reference_.synchronizer->apply(0, sum_of(rows), GradientState::kLocal);
    expect_as_reference();
  }
  EXPECT_EQ(ours_.state->step(0), 3);
}

TEST_P(AppliedGradients, AggregatedOnesAreAppliedAsTheyAre) {
  const auto rows = random_rows(*ours_.state, GetParam().replicas);
  const Row expected = sum_of(rows);
  ours_.in_replicas([&](int replica) {
    const Row sums = ours_.synchronizer->aggregate(replica, rows[replica]);
    for (std::size_t i = 0; i < sums.size(); ++i)
      EXPECT_TRUE(sums[i].allclose(expected[i], 1e-6, 1e-12)) << i;
    ours_.synchronizer->apply(replica, sums, GradientState::kAggregated);
  });
  reference_.synchronizer->apply(0, expected, GradientState::kLocal);
  expect_as_reference();
}

TEST_P(AppliedGradients, UndefinedInSomeReplicasCountsAsZero) {
  auto rows = random_rows(*ours_.state, GetParam().replicas);
  for (int replica = 1; replica < GetParam().replicas; ++replica)
    rows[replica] = Row(rows[0].size());
  ours_.in_replicas([&](int replica) {
    ours_.synchronizer->apply(replica, rows[replica], GradientState::kLocal);
  });
  reference_.synchronizer->apply(0, rows[0], GradientState::kLocal);
  expect_as_reference();
}

TEST_P(AppliedGradients, UndefinedEverywhereLeavesVariableSlotsAndStepUntouched) {
  auto rows = random_rows(*ours_.state, GetParam().replicas);
  for (Row& row : rows) row[1] = at::Tensor();
  const std::string name = ours_.state->variables()[1].name();
  const at::Tensor before = ours_.state->variables()[1].read();
  ours_.in_replicas([&](int replica) {
    ours_.synchronizer->apply(replica, rows[replica], GradientState::kLocal);
  });
  EXPECT_TRUE(at::equal(ours_.state->variables()[1].read(), before)) << name;
  EXPECT_EQ(ours_.state->step(1), 0);
  EXPECT_EQ(ours_.state->step(0), 1);
  for (int slot : {0, 1})
    EXPECT_EQ(ours_.state->slot(1, slot, 0).count_nonzero().item<std::int64_t>(), 0);
}

TEST_P(AppliedGradients, AVariableThatIsNotTrainedDoesNotDecay) {
  const auto rows = random_rows(*ours_.state, GetParam().replicas);
  ours_.in_replicas([&](int replica) {
    ours_.synchronizer->apply(replica, rows[replica], GradientState::kLocal);
  });
  EXPECT_TRUE(at::equal(ours_.variables[1].read(), at::full({5}, 1.0, at::kDouble)));
}

TEST_P(AppliedGradients, AreNotTakenForChangesByOtherCode) {
  const auto rows = random_rows(*ours_.state, GetParam().replicas);
  ours_.in_replicas([&](int replica) {
    ours_.synchronizer->apply(replica, rows[replica], GradientState::kLocal);
    for (const auto& variable : ours_.state->variables())
      EXPECT_NO_THROW(variable.check_untouched(replica)) << variable.name();
  });
}

TEST_P(AppliedGradients, AreTheSameBitsInEveryRun) {
  Applied again(GetParam(), rule());
  for (int step = 0; step < 3; ++step) {
    const auto rows = random_rows(*ours_.state, GetParam().replicas);
    for (Applied* one : {&ours_, &again}) {
      one->in_replicas([&](int replica) {
        one->synchronizer->apply(replica, rows[replica], GradientState::kLocal);
      });
    }
  }
  for (std::size_t i = 0; i < ours_.variables.size(); ++i)
    EXPECT_TRUE(at::equal(ours_.variables[i].read(), again.variables[i].read()));
}

TEST_P(AppliedGradients, ARuleOfWholeVariablesGetsTheirNorms) {
  const auto lars = optim::Lars{.learning_rate = 50, .weight_decay = 0.1}.rule();
  Applied ours(GetParam(), lars);
  Applied reference({1, StorageSharing::kOneStorage}, lars);
  for (int step = 0; step < 3; ++step) {
    const auto rows = random_rows(*ours.state, GetParam().replicas);
    ours.in_replicas([&](int replica) {
      ours.synchronizer->apply(replica, rows[replica], GradientState::kLocal);
    });
    reference.synchronizer->apply(0, sum_of(rows), GradientState::kLocal);
  }
  for (std::size_t i = 0; i < ours.variables.size(); ++i) {
    const at::Tensor expected = reference.variables[i].component(0);
    EXPECT_EQ(expected.eq(1).all().item<bool>(), !ours.variables[i].trainable());
    for (int replica = 0; replica < GetParam().replicas; ++replica) {
      EXPECT_TRUE(ours.variables[i].component(replica).allclose(expected, 1e-6, 1e-12))
          << ours.variables[i].name() << " in replica " << replica;
    }
  }
}

TEST_P(AppliedGradients, AppliedOutsideReplicasUpdateEveryReplica) {
  const auto rows = random_rows(*ours_.state, 1);
  apply_everywhere(*ours_.state, rows.front());
  reference_.synchronizer->apply(0, rows.front(), GradientState::kLocal);
  expect_as_reference();
  EXPECT_EQ(ours_.state->step(0), 1);
  for (int replica = 0; replica < GetParam().replicas; ++replica) {
    for (const auto& variable : ours_.state->variables())
      EXPECT_NO_THROW(variable.check_untouched(replica)) << variable.name();
  }
}

std::vector<Case> cases() {
  std::vector<Case> all = {{1, StorageSharing::kOneStorage},
                           {2, StorageSharing::kOneStorage},
                           {3, StorageSharing::kOneStorage},
                           {2, StorageSharing::kOneCopyEach},
                           {3, StorageSharing::kOneCopyEach}};
  for (const StorageSharing sharing : {StorageSharing::kOneStorage, StorageSharing::kOneCopyEach})
    all.push_back({.replicas = 3, .sharing = sharing, .reduce = Reduce::kByOps});
  for (const int replicas : {1, 2, 3}) {
    for (const Caching caching : {Caching::kWhereNeeded, Caching::kAlways}) {
      for (const auto work : {ControllerWork::kSharded, ControllerWork::kFirstReplica}) {
        for (const auto reduce : {Reduce::kDefault, Reduce::kByOps})
          all.push_back({replicas, StorageSharing::kController, caching, work, reduce});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Synchronizers, AppliedGradients, ::testing::ValuesIn(cases()));

TEST(GradientPresence, DistinguishesDefinedFromUndefined) {
  const at::Tensor some = at::ones({1}), none;
  const std::vector<at::Tensor> gradients = {some, none};
  EXPECT_EQ(present(gradients), std::vector<bool>({true, false}));
  std::vector<bool> known = {false, true};
  merge_present(known, gradients);
  EXPECT_EQ(known, std::vector<bool>({true, true}));
}

TEST(GradientPresence, OneReplicaIsEnough) {
  const at::Tensor some = at::ones({1}), none;
  comm::run_ranks_successfully(3, [&](comm::Communicator& communicator) {
    const std::vector<at::Tensor> gradients = {communicator.rank() == 2 ? some : none, none, some};
    EXPECT_EQ(present_anywhere(communicator, gradients), std::vector<bool>({true, false, true}));
  });
  comm::run_ranks_successfully(1, [&](comm::Communicator& communicator) {
    const std::vector<at::Tensor> gradients = {some, none};
    EXPECT_EQ(present_anywhere(communicator, gradients), std::vector<bool>({true, false}));
  });
}

TEST(ElementShard, ShardsCoverTheRange) {
  for (const std::int64_t size : {0, 1, 63, 64, 1000, 100'003}) {
    for (const int num_shards : {1, 2, 3, 7}) {
      std::int64_t at = 5;
      for (int shard = 0; shard < num_shards; ++shard) {
        const ElementRange range = element_shard({5, 5 + size}, shard, num_shards);
        EXPECT_EQ(range.begin, at);
        at = range.end;
      }
      EXPECT_EQ(at, 5 + size);
    }
  }
}

TEST(ElementShard, BeginsAtWholeCacheLinesAndIsBalanced) {
  EXPECT_EQ(element_shard({0, 1000}, 0, 3), (ElementRange{0, 320}));
  EXPECT_EQ(element_shard({0, 1000}, 1, 3), (ElementRange{320, 640}));
  EXPECT_EQ(element_shard({0, 1000}, 2, 3), (ElementRange{640, 1000}));
  EXPECT_EQ(element_shard({64, 100}, 0, 2), (ElementRange{64, 64}));
}

TEST(ShardedSynchronizer, RefusesWorkersWhoseGradientsItWouldNotAdd) {
  const Applied one(Case{.replicas = 2, .sharing = StorageSharing::kOneStorage},
                    optim::Sgd{}.rule());
  SynchronizerContext context{.state = one.state, .group = one.group, .communicators = {}};
  const auto workers = [](std::vector<int> replicas) {
    auto group = std::make_shared<WorkerGroup>();
    group->layout.replicas = std::move(replicas);
    return group;
  };
  context.workers = workers({2, 2});
  EXPECT_THROW(make_sharded_synchronizer(context), Error);
  context.workers = workers({2});
  EXPECT_NE(make_sharded_synchronizer(context), nullptr);
}

}  // namespace
}  // namespace brigade::distribute
