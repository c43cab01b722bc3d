#include "brigade/distribute/optimizer/subtree_sums.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <functional>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/concurrency/shared_slots.h"

namespace brigade::distribute {
namespace {

/// The tree's sum of leaves [begin, end), by its definition.
at::Tensor tree_sum(const std::vector<at::Tensor>& leaves, int begin, int end) {
  if (end - begin == 1) return leaves[static_cast<std::size_t>(begin)];
  const int middle =
      begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(end - begin - 1)));
  return tree_sum(leaves, begin, middle).add(tree_sum(leaves, middle, end));
}

/// Runs the replicas of a process, of which those with equal numbers in `slots` share a device.
class Replicas {
 public:
  explicit Replicas(std::vector<int> slot_of, ReplicaRange range)
      : slots(std::make_shared<concurrency::SharedSlots>(slot_of)),
        group(std::make_shared<comm::LocalGroup>(
            static_cast<int>(slot_of.size()),
            comm::LocalGroupOptions{.timeout = std::chrono::seconds(30),
                                    .spin = std::chrono::microseconds(0),
                                    .slots = slots})),
        sums(group, range, slot_of),
        count(static_cast<int>(slot_of.size())) {}

  void run(const std::function<void(int)>& body) const {
    slots->start();
    std::vector<std::thread> threads;
    for (int replica = 0; replica < count; ++replica) {
      threads.emplace_back([&, replica] {
        const concurrency::ExecutionSlots::Hold hold(slots.get(), replica);
        body(replica);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  const std::shared_ptr<concurrency::ExecutionSlots> slots;
  const std::shared_ptr<comm::LocalGroup> group;
  SubtreeSums sums;
  const int count;
};

std::vector<at::Tensor> random_leaves(int count) {
  std::vector<at::Tensor> leaves;
  for (int leaf = 0; leaf < count; ++leaf)
    leaves.push_back(at::rand({37}) * (leaf % 2 ? 1e4 : 1e-3));
  return leaves;
}

/// What each replica has left after `add`, of gradients equal to the leaves of its range.
std::vector<at::Tensor> left_over(const std::vector<at::Tensor>& leaves, std::vector<int> slots,
                                  ReplicaRange range) {
  Replicas replicas(std::move(slots), range);
  std::vector<at::Tensor> left(static_cast<std::size_t>(range.local));
  replicas.run([&](int replica) {
    std::vector<at::Tensor> own{leaves[static_cast<std::size_t>(range.first + replica)].clone()};
    left[static_cast<std::size_t>(replica)] = replicas.sums.add(replica, std::move(own)).front();
  });
  return left;
}

TEST(SubtreeSums, OneDeviceWithAllReplicasAddsTheWholeTree) {
  for (int leaves = 1; leaves <= 9; ++leaves) {
    const std::vector<at::Tensor> values = random_leaves(leaves);
    const auto left = left_over(values, std::vector<int>(static_cast<std::size_t>(leaves), 0),
                                {.first = 0, .local = leaves, .total = leaves});
    int defined = 0;
    for (const at::Tensor& each : left) {
      if (!each.defined()) continue;
      ++defined;
      EXPECT_TRUE(each.equal(tree_sum(values, 0, leaves))) << leaves;
    }
    EXPECT_EQ(defined, 1);
  }
}

// Six leaves: ((0 1) (2 3)) (4 5). Leaves 1 to 5 in this process: 1 alone, (2 3), (4 5).
TEST(SubtreeSums, ABlockAddsItsLargestWholeSubtrees) {
  const std::vector<at::Tensor> values = random_leaves(6);
  const auto left = left_over(values, {0, 0, 0, 0, 0}, {.first = 1, .local = 5, .total = 6});
  std::vector<at::Tensor> sums;
  for (const at::Tensor& each : left) {
    if (each.defined()) sums.push_back(each);
  }
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_TRUE(left[0].equal(values[1]));
  EXPECT_TRUE(sums[1].equal(values[2].add(values[3])));
  EXPECT_TRUE(sums[2].equal(values[4].add(values[5])));
}

TEST(SubtreeSums, ReplicasOfDifferentDevicesAreNotAdded) {
  const std::vector<at::Tensor> values = random_leaves(4);
  const auto left = left_over(values, {0, 1, 1, 1}, {.first = 0, .local = 4, .total = 4});
  EXPECT_TRUE(left[0].equal(values[0]));
  EXPECT_TRUE(left[1].equal(values[1]));
  EXPECT_TRUE((left[2].defined() ? left[2] : left[3]).equal(values[2].add(values[3])));
}

TEST(SubtreeSums, AnUndefinedGradientCountsAsZero) {
  Replicas replicas({0, 0, 0, 0}, {.first = 0, .local = 4, .total = 4});
  std::vector<at::Tensor> left(4);
  replicas.run([&](int replica) {
    std::vector<at::Tensor> own(1);
    if (replica == 1 || replica == 2) own[0] = at::ones({3}) * replica;
    left[static_cast<std::size_t>(replica)] = replicas.sums.add(replica, std::move(own)).front();
  });
  int defined = 0;
  for (const at::Tensor& each : left) {
    if (!each.defined()) continue;
    EXPECT_TRUE(each.equal(at::ones({3}) * 3));
    ++defined;
  }
  EXPECT_EQ(defined, 1);
}

TEST(SubtreeSums, TensorsThatOthersHoldDoNotChange) {
  const std::vector<at::Tensor> values = random_leaves(2);
  const std::vector<at::Tensor> before{values[0].clone(), values[1].clone()};
  Replicas replicas({0, 0}, {.first = 0, .local = 2, .total = 2});
  replicas.run([&](int replica) {
    replicas.sums.add(replica, {values[static_cast<std::size_t>(replica)]});
  });
  EXPECT_TRUE(values[0].equal(before[0]));
  EXPECT_TRUE(values[1].equal(before[1]));
}

TEST(SubtreeSums, HalfPrecisionIsLeftToTheCallerWhoAddsInFloat32) {
  Replicas replicas({0, 0}, {.first = 0, .local = 2, .total = 2});
  replicas.run([&](int replica) {
    const auto left = replicas.sums.add(replica, {at::ones({3}, at::kBFloat16)});
    EXPECT_TRUE(left.front().defined());
  });
}

// Counts the tensors of gradients that exist: each owns its memory through a counted handle.
TEST(SubtreeSums, ADeviceKeepsFewSetsOfGradients) {
  for (const int replicas_count : {2, 3, 4, 7, 8, 16}) {
    std::atomic<int> alive{0};
    std::atomic<int> most{0};
    const auto counted = [&] {
      most = std::max(most.load(), ++alive);
      auto* memory = new float[8]();
      return at::from_blob(memory, {8}, [&alive, memory](void*) {
        delete[] memory;
        --alive;
      });
    };
    Replicas replicas(std::vector<int>(static_cast<std::size_t>(replicas_count), 0),
                      {.first = 0, .local = replicas_count, .total = replicas_count});
    replicas.run([&](int replica) {
      std::vector<at::Tensor> own{counted()};
      replicas.sums.add(replica, std::move(own));
    });
    const int levels = std::bit_width(static_cast<unsigned>(replicas_count - 1));
    EXPECT_LE(most, levels + 2) << replicas_count << " replicas";
    EXPECT_EQ(alive, 0);
  }
}

// The last replica adds the first of its two gradients early.
TEST(SubtreeSums, TheLastReplicaMayAddOneGradientAfterAnother) {
  for (const int leaves : {1, 2, 4, 8}) {
    const std::vector<at::Tensor> early = random_leaves(leaves);
    const std::vector<at::Tensor> late = random_leaves(leaves);
    Replicas replicas(std::vector<int>(static_cast<std::size_t>(leaves), 0),
                      {.first = leaves, .local = leaves, .total = 2 * leaves});
    ASSERT_TRUE(replicas.sums.devices_are_subtrees());
    std::vector<std::vector<at::Tensor>> left(static_cast<std::size_t>(leaves));
    at::Tensor sum;
    replicas.run([&](int replica) {
      const auto index = static_cast<std::size_t>(replica);
      std::vector<at::Tensor> own{early[index].clone(), late[index].clone()};
      replicas.sums.begin(replica);
      EXPECT_EQ(replicas.sums.is_last(replica), replica == leaves - 1);
      if (replica == leaves - 1) {
        sum = replicas.sums.add_one(replica, 0, own[0]);
        EXPECT_TRUE(own[0].equal(early[index]));
      }
      left[index] = replicas.sums.add(replica, std::move(own));
    });
    EXPECT_TRUE(sum.equal(tree_sum(early, 0, leaves))) << leaves;
    const std::vector<at::Tensor> expected{sum, tree_sum(late, 0, leaves)};
    for (std::size_t variable = 0; variable < 2; ++variable) {
      int defined = 0;
      for (const auto& of_replica : left) {
        if (!of_replica[variable].defined()) continue;
        ++defined;
        EXPECT_TRUE(of_replica[variable].equal(expected[variable])) << leaves;
      }
      EXPECT_EQ(defined, 1) << leaves;
    }
  }
}

TEST(SubtreeSums, ADeviceOfSeveralSubtreesCompletesNoSum) {
  const Replicas replicas({0, 0, 0}, {.first = 3, .local = 3, .total = 6});
  EXPECT_FALSE(replicas.sums.devices_are_subtrees());
}

TEST(SubtreeSums, AReplicaThatFailsLeavesNothingForTheNextStep) {
  Replicas replicas({0, 0}, {.first = 0, .local = 2, .total = 2});
  replicas.run([&](int replica) {
    if (replica == 1) return replicas.group->abort(1, "out of memory");
    EXPECT_THROW(replicas.sums.add(0, {at::ones({3})}), Error);
  });
  replicas.group->reset();
  replicas.run([&](int replica) {
    const auto left = replicas.sums.add(replica, {at::ones({3})});
    const bool is_sum = left.front().defined();
    EXPECT_TRUE(!is_sum || left.front().equal(at::ones({3}) * 2));
  });
}

}  // namespace
}  // namespace brigade::distribute
