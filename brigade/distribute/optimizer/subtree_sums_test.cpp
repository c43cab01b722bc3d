#include "brigade/distribute/optimizer/subtree_sums.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/concurrency/shared_slots.h"
#include "brigade/distribute/testing/deferred_product.h"

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

// What is left may be added by anyone, in the order of the tree.
TEST(SubtreeSums, WhatIsLeftHasTheSumOfTheTree) {
  for (int leaves = 1; leaves <= 20; ++leaves) {
    const std::vector<at::Tensor> values = random_leaves(leaves);
    const auto left = left_over(values, std::vector<int>(static_cast<std::size_t>(leaves), 0),
                                {.first = 0, .local = leaves, .total = leaves});
    EXPECT_TRUE(
        comm::combine_by_tree(left, comm::ReduceOp::kSum).equal(tree_sum(values, 0, leaves)))
        << leaves;
  }
}

// Ten leaves: (((0 1) (2 3)) ((4 5) (6 7))) (8 9). Leaves 1 to 9 in this process.
TEST(SubtreeSums, ABlockAddsNothingAcrossItsSubtrees) {
  const std::vector<at::Tensor> values = random_leaves(10);
  auto left = left_over(values, std::vector<int>(9, 0), {.first = 1, .local = 9, .total = 10});
  EXPECT_TRUE(left[0].equal(values[1]));
  left.insert(left.begin(), values[0]);
  EXPECT_TRUE(comm::combine_by_tree(left, comm::ReduceOp::kSum).equal(tree_sum(values, 0, 10)));
}

TEST(SubtreeSums, AddsInEveryDtypeThatIsNotWidened) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kLong}) {
    std::vector<at::Tensor> values;
    for (const at::Tensor& leaf : random_leaves(8)) values.push_back(leaf.to(dtype));
    const auto left =
        left_over(values, std::vector<int>(8, 0), {.first = 0, .local = 8, .total = 8});
    EXPECT_TRUE(comm::combine_by_tree(left, comm::ReduceOp::kSum).equal(tree_sum(values, 0, 8)))
        << dtype;
  }
}

TEST(SubtreeSums, ReplicasOfDifferentDevicesAreNotAdded) {
  const std::vector<at::Tensor> values = random_leaves(4);
  const auto left = left_over(values, {0, 1, 1, 1}, {.first = 0, .local = 4, .total = 4});
  EXPECT_TRUE(left[0].equal(values[0]));
  EXPECT_TRUE(left[1].equal(values[1]));
  EXPECT_TRUE(comm::combine_by_tree(left, comm::ReduceOp::kSum).equal(tree_sum(values, 0, 4)));
}

TEST(SubtreeSums, AnUndefinedGradientCountsAsZero) {
  Replicas replicas(std::vector<int>(8, 0), {.first = 0, .local = 8, .total = 8});
  std::vector<at::Tensor> left(8);
  replicas.run([&](int replica) {
    std::vector<at::Tensor> own(2);
    if (replica == 1 || replica == 2) own[0] = at::ones({3}) * replica;
    auto rest = replicas.sums.add(replica, std::move(own));
    left[static_cast<std::size_t>(replica)] = rest[0];
    EXPECT_FALSE(rest[1].defined());
  });
  EXPECT_TRUE(comm::combine_by_tree(left, comm::ReduceOp::kSum).equal(at::ones({3}) * 3));
}

TEST(SubtreeSums, TensorsThatOthersHoldDoNotChange) {
  const std::vector<at::Tensor> values = random_leaves(8);
  std::vector<at::Tensor> before;
  for (const at::Tensor& value : values) before.push_back(value.clone());
  Replicas replicas(std::vector<int>(8, 0), {.first = 0, .local = 8, .total = 8});
  replicas.run([&](int replica) {
    replicas.sums.add(replica, {values[static_cast<std::size_t>(replica)]});
  });
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(values[i].equal(before[i])) << i;
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
  for (const int leaves : {1, 2, 4, 8, 16}) {
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
        sum = replicas.sums.add_one(replica, 0, {.value = own[0]});
        EXPECT_TRUE(own[0].equal(early[index]));
      }
      left[index] = replicas.sums.add(replica, std::move(own));
    });
    EXPECT_TRUE(sum.equal(tree_sum(early, 0, leaves))) << leaves;
    std::vector<at::Tensor> left_early, left_late;
    for (const auto& of_replica : left) {
      left_early.push_back(of_replica[0]);
      left_late.push_back(of_replica[1]);
    }
    EXPECT_EQ(std::ranges::count_if(left_early, &at::Tensor::defined), 1) << leaves;
    EXPECT_TRUE(comm::combine_by_tree(left_early, comm::ReduceOp::kSum).equal(sum)) << leaves;
    EXPECT_TRUE(
        comm::combine_by_tree(left_late, comm::ReduceOp::kSum).equal(tree_sum(late, 0, leaves)))
        << leaves;
  }
}

ReplicaGradients one_deferred(const at::Tensor& value, std::atomic<int>& computed) {
  ReplicaGradients gradients;
  gradients.push_back(
      {.deferred = std::make_shared<const KnownGradient>(at::empty_like(value), value, &computed)});
  return gradients;
}

// Every third leaf has a value, and every fifth no gradient.
TEST(SubtreeSums, DeferredGradientsAreComputedOnceAndAddedByTheTree) {
  for (const ReplicaRange range : {ReplicaRange{.first = 0, .local = 2, .total = 2},
                                   {.first = 0, .local = 7, .total = 7},
                                   {.first = 0, .local = 16, .total = 16},
                                   {.first = 0, .local = 20, .total = 20},
                                   {.first = 1, .local = 9, .total = 10},
                                   {.first = 3, .local = 3, .total = 6}}) {
    std::vector<at::Tensor> values = random_leaves(range.total);
    for (std::size_t leaf = 4; leaf < values.size(); leaf += 5) values[leaf].reset();
    std::vector<int> slots(static_cast<std::size_t>(range.local), 1);
    slots.front() = 0;  // alone on its device
    Replicas replicas(slots, range);
    std::atomic<int> computed{0};
    std::atomic<int> deferred{0};
    std::vector<at::Tensor> left = values;
    replicas.run([&](int replica) {
      const auto leaf = static_cast<std::size_t>(range.first + replica);
      ReplicaGradients own(1);
      if (leaf % 3 == 2) {
        own[0].value = values[leaf].defined() ? values[leaf].clone() : at::Tensor();
      } else if (values[leaf].defined()) {
        own = one_deferred(values[leaf], computed);
        ++deferred;
      }
      left[leaf] = replicas.sums.add(replica, std::move(own)).front();
    });
    EXPECT_EQ(computed, deferred.load());
    EXPECT_TRUE(comm::combine_by_tree(left, comm::ReduceOp::kSum)
                    .equal(comm::combine_by_tree(values, comm::ReduceOp::kSum)))
        << range.first << ", " << range.local;
  }
}

TEST(SubtreeSums, TheLastReplicaMayAddADeferredGradient) {
  constexpr int kLeaves = 8;
  const std::vector<at::Tensor> values = random_leaves(kLeaves);
  Replicas replicas(std::vector<int>(kLeaves, 0), {.first = 0, .local = kLeaves, .total = kLeaves});
  std::atomic<int> computed{0};
  at::Tensor sum;
  std::vector<at::Tensor> left(kLeaves);
  replicas.run([&](int replica) {
    ReplicaGradients own = one_deferred(values[static_cast<std::size_t>(replica)], computed);
    replicas.sums.begin(replica);
    if (replicas.sums.is_last(replica)) {
      EXPECT_EQ(computed, 0);
      sum = replicas.sums.add_one(replica, 0, own[0]);
    }
    left[static_cast<std::size_t>(replica)] = replicas.sums.add(replica, std::move(own)).front();
  });
  EXPECT_EQ(computed, kLeaves);
  EXPECT_TRUE(sum.equal(tree_sum(values, 0, kLeaves)));
  EXPECT_TRUE(comm::combine_by_tree(left, comm::ReduceOp::kSum).equal(sum));
}

/// Knows how to add: counts the passes, and gradients that exist.
struct CountedGradient final : variables::DeferredGradient {
  struct Counts {
    std::atomic<int> alive{0}, most{0}, sums{0}, parts{0};
  };
  CountedGradient(const at::Tensor& variable, std::int64_t bytes, Counts& to)
      : DeferredGradient(variable), bytes_(bytes), counts(to) {
    counts.most = std::max(counts.most.load(), ++counts.alive);
  }
  ~CountedGradient() override { --counts.alive; }
  std::int64_t bytes() const override { return bytes_; }
  at::Tensor compute() const override { return at::ones(variable().sizes()); }
  bool try_sum(std::span<const variables::GradientPart> parts, const comm::ReductionTree&,
               const at::Tensor& sum) const override {
    ++counts.sums;
    float total = 0;
    for (const variables::GradientPart& part : parts) {
      counts.parts += part.deferred ? 1 : 0;
      total += part.deferred          ? 1.0F
               : part.value.defined() ? part.value.flatten()[0].item<float>()
                                      : 0.0F;
    }
    sum.fill_(total);
    return true;
  }
  const std::int64_t bytes_;
  Counts& counts;
};

TEST(SubtreeSums, SmallDeferredGradientsAreAddedInOnePassAndLargeOnesNotKept) {
  constexpr int kLeaves = 16;
  const at::Tensor variable = at::empty({8});
  for (const std::int64_t bytes : {1, 32}) {
    CountedGradient::Counts counts;
    Replicas replicas(std::vector<int>(kLeaves, 0),
                      {.first = 0, .local = kLeaves, .total = kLeaves});
    std::vector<at::Tensor> left(kLeaves);
    replicas.run([&](int replica) {
      ReplicaGradients own(1);
      own[0].deferred = std::make_shared<const CountedGradient>(variable, bytes, counts);
      left[static_cast<std::size_t>(replica)] = replicas.sums.add(replica, std::move(own)).front();
    });
    EXPECT_TRUE(comm::combine_by_tree(left, comm::ReduceOp::kSum).equal(at::full({8}, 16.0F)));
    EXPECT_EQ(counts.alive, 0);
    EXPECT_EQ(counts.parts, kLeaves);
    if (bytes == 1) {
      EXPECT_EQ(counts.sums, 1);
    } else {
      EXPECT_LE(counts.most, 4 + 2) << "sets of a device of 16";
    }
  }
}

TEST(SubtreeSums, DeferredGradientsBesideHalfPrecisionAreComputed) {
  Replicas replicas({0, 0, 0}, {.first = 0, .local = 3, .total = 3});
  std::atomic<int> computed{0};
  replicas.run([&](int replica) {
    ReplicaGradients own = one_deferred(at::ones({3}), computed);
    own.push_back({.value = replica == 1 ? at::ones({3}, at::kBFloat16) : at::Tensor()});
    EXPECT_TRUE(replicas.sums.add(replica, std::move(own)).front().equal(at::ones({3})));
  });
  EXPECT_EQ(computed, 3);
}

TEST(SubtreeSums, AFailedReplicaLeavesNoDeferredGradients) {
  Replicas replicas({0, 0}, {.first = 0, .local = 2, .total = 2});
  CountedGradient::Counts counts;
  const at::Tensor variable = at::empty({3});
  replicas.run([&](int replica) {
    ReplicaGradients own(1);
    own[0].deferred = std::make_shared<const CountedGradient>(variable, 1, counts);
    if (replica == 1) return replicas.group->abort(1, "out of memory");
    EXPECT_THROW(replicas.sums.add(0, std::move(own)), Error);
  });
  EXPECT_EQ(counts.alive, 0);
  replicas.group->reset();
  std::vector<at::Tensor> left(2);
  replicas.run([&](int replica) {
    left[static_cast<std::size_t>(replica)] = replicas.sums.add(replica, {at::ones({3})}).front();
  });
  EXPECT_TRUE(comm::combine_by_tree(left, comm::ReduceOp::kSum).equal(at::ones({3}) * 2));
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
  std::vector<at::Tensor> left(2);
  replicas.run([&](int replica) {
    left[static_cast<std::size_t>(replica)] = replicas.sums.add(replica, {at::ones({3})}).front();
  });
  EXPECT_TRUE(comm::combine_by_tree(left, comm::ReduceOp::kSum).equal(at::ones({3}) * 2));
}

TEST(SumInPieces, HasTheBitsOfTheWholeSum) {
  constexpr std::int64_t kElements = (3 << 20) + 77;
  const comm::ReductionTree tree(5);
  const auto parts = [] {
    std::vector<variables::GradientPart> parts;
    for (int i = 0; i < 5; ++i) {
      at::Tensor value = at::arange(kElements, at::kFloat).add_(i).sin_();
      parts.push_back({.value = i == 3 ? at::Tensor() : std::move(value)});
    }
    return parts;
  };
  SumInPieces sum(parts(), tree);
  ASSERT_GT(sum.pieces(), 3);
  std::vector<std::thread> threads;
  for (int piece = 0; piece < sum.pieces(); ++piece)
    threads.emplace_back([&sum, piece] { sum.make(piece); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(at::equal(sum.take(), sum_of_parts(parts(), tree)));

  SumInPieces one({{.value = at::ones({kElements})}, {}}, comm::ReductionTree(2));
  EXPECT_EQ(one.pieces(), 1);
  one.make(0);
  EXPECT_TRUE(at::equal(one.take(), at::ones({kElements})));
}

}  // namespace
}  // namespace brigade::distribute
