// The contract of every Communicator, for implementations whose ranks can be threads of this
// process, with one to four ranks. A new implementation adds a line to the list.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "brigade/comm/nccl/nccl_communicator.h"
#include "brigade/comm/testing/nccl_wire.h"
#include "brigade/comm/testing/process_threads.h"
#include "brigade/comm/testing/rank_threads.h"
#include "tests/contract/communicator_contract.h"

namespace brigade::comm {
namespace {

using Body = Implementation::Body;

/// A counter in this process.
std::function<std::int64_t(std::int64_t)> make_counter() {
  return [counter = std::make_shared<std::atomic<std::int64_t>>()](std::int64_t delta) {
    return counter->fetch_add(delta) + delta;
  };
}

/// Ranks that are processes, over this transport.
Implementation between_processes(std::string name, Transport transport, int world) {
  const CommunicationOptions options{.transport = transport, .timeout = std::chrono::seconds(60)};
  return {
      .name = std::move(name),
      .run = [options](int size, const Body& body) { return run_processes(size, options, body); },
      .world = world,
      .add = make_counter()};
}

/// Ranks in two processes; the second has one more if their number is odd.
std::vector<std::exception_ptr> run_two_processes(int world, const Body& body) {
  if (world == 1) return run_hierarchy({1}, body);
  return run_hierarchy({world / 2, world - world / 2}, body);
}

/// NCCL communicators on fake GPUs, which do not add by the tree.
std::vector<std::exception_ptr> run_fake_gpus(int world, const Body& body) {
  Wire wire;
  const auto runner = std::make_shared<PromptWire>(wire, world);
  return run_ranks(world, body, [&](std::shared_ptr<LocalGroup> group) {
    std::vector<std::unique_ptr<Communicator>> all;
    for (auto& local : make_local_communicators(std::move(group))) {
      const int rank = local->rank();
      all.push_back(make_nccl_communicator(runner, rank, std::move(local)));
    }
    return all;
  });
}

std::vector<Implementation> implementations() {
  std::vector<Implementation> all;
  for (int world = 1; world <= 4; ++world) {
    all.push_back({.name = "Local",
                   .run = [](int size, const Body& body) { return run_ranks(size, body); },
                   .world = world,
                   .add = make_counter()});
    all.push_back(
        {.name = "NcclOnFakeGpus", .run = run_fake_gpus, .world = world, .add = make_counter()});
    all.push_back(between_processes("SharedMemory", Transport::kSharedMemory, world));
    if (gloo_is_built_in()) all.push_back(between_processes("Gloo", Transport::kGloo, world));
    all.push_back(
        {.name = "Hierarchical", .run = run_two_processes, .world = world, .add = make_counter()});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Communicators, CommunicatorContract,
                         ::testing::ValuesIn(implementations()), [](const auto& instance) {
                           return instance.param.name + std::to_string(instance.param.world);
                         });

/// A number of leaves, and how transports carry them between processes.
struct LayoutCase {
  Transport transport = Transport::kSharedMemory;
  int leaves = 1;
};

std::vector<LayoutCase> layout_cases() {
  std::vector<LayoutCase> all;
  for (const Transport transport : {Transport::kSharedMemory, Transport::kGloo}) {
    if (transport == Transport::kGloo && !gloo_is_built_in()) continue;
    for (const int leaves : {3, 4, 5, 6, 8}) all.push_back({transport, leaves});
  }
  return all;
}

/// Layouts of so many replicas over one to four processes: aligned blocks, unaligned ones, and
/// blocks of which some are subtrees.
std::vector<std::vector<int>> layouts_of(int leaves) {
  switch (leaves) {
    case 3:
      return {{3}, {1, 2}, {2, 1}, {1, 1, 1}};
    case 4:
      return {{4}, {2, 2}, {3, 1}, {1, 3}, {1, 2, 1}, {1, 1, 1, 1}};
    case 5:
      return {{5}, {2, 3}, {4, 1}, {1, 4}, {1, 3, 1}, {2, 1, 1, 1}};
    case 6:
      return {{6}, {3, 3}, {2, 4}, {5, 1}, {2, 2, 2}, {4, 1, 1}, {1, 2, 2, 1}};
    default:
      return {{8}, {4, 4}, {3, 5}, {7, 1}, {3, 3, 2}, {2, 2, 2, 2}, {1, 3, 3, 1}};
  }
}

class Layouts : public ::testing::TestWithParam<LayoutCase> {
 protected:
  /// Small enough for one message; large enough for several chunks, and not divisible.
  static constexpr std::array<std::int64_t, 2> kSizes = {501, 300'007};

  /// Of magnitudes so different that almost every order of additions has its own sum.
  static at::Tensor values_of(int leaf, std::int64_t size) {
    const double scale = std::array{1.0, 1e5, 30.0, 4e6}[static_cast<std::size_t>(leaf % 4)];
    return at::arange(size, at::kDouble).mul(0.37 + leaf).sin().mul(scale).to(at::kFloat);
  }

  /// The rule: split after the largest power of two below the number of leaves.
  static at::Tensor sum_by_rule(int begin, int end, std::int64_t size) {
    if (end - begin == 1) return values_of(begin, size);
    int left = 1;
    while (2 * left < end - begin) left *= 2;
    return sum_by_rule(begin, begin + left, size) + sum_by_rule(begin + left, end, size);
  }
};

TEST_P(Layouts, SumsHaveTheSameBitsHoweverReplicasAreSpreadOverProcesses) {
  const int leaves = GetParam().leaves;
  std::vector<at::Tensor> sums, means;
  for (const std::int64_t size : kSizes) {
    sums.push_back(sum_by_rule(0, leaves, size));
    means.push_back(sums.back().div(static_cast<double>(leaves)));
  }
  for (const std::vector<int>& replicas : layouts_of(leaves)) {
    SCOPED_TRACE(::testing::PrintToString(replicas));
    run_hierarchy_successfully(
        replicas,
        [&](Communicator& communicator) {
          for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
            std::vector<at::Tensor> tensors;
            for (const std::int64_t size : kSizes)
              tensors.push_back(values_of(communicator.rank(), size));
            communicator.all_reduce(tensors, op)->wait();
            for (std::size_t i = 0; i < tensors.size(); ++i)
              EXPECT_TRUE(at::equal(tensors[i], (op == ReduceOp::kSum ? sums : means)[i])) << i;
          }
        },
        {.transport = GetParam().transport, .timeout = std::chrono::seconds(60)});
  }
}

TEST_P(Layouts, AChainOfAdditionsWouldHaveOtherBitsForMoreThanThree) {
  for (const std::int64_t size : kSizes) {
    at::Tensor chain = values_of(0, size);
    for (int leaf = 1; leaf < GetParam().leaves; ++leaf) chain = chain + values_of(leaf, size);
    const bool is_the_tree = at::equal(chain, sum_by_rule(0, GetParam().leaves, size));
    EXPECT_EQ(is_the_tree, GetParam().leaves == 3) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Communicators, Layouts, ::testing::ValuesIn(layout_cases()),
                         [](const auto& instance) {
                           return std::string(to_string(instance.param.transport)) + "_of_" +
                                  std::to_string(instance.param.leaves);
                         });

}  // namespace
}  // namespace brigade::comm
