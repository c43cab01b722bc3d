#include "brigade/comm/hierarchical.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/comm/testing/process_threads.h"

namespace brigade::comm {
namespace {

at::Tensor values_of(int rank) {
  return at::arange(50'001, at::kDouble)
      .mul(0.37 + rank)
      .sin()
      .mul(rank == 1 ? 1e4 : 1)
      .to(at::kFloat);
}

TEST(Hierarchical, WithOneProcessReturnsTheLocalCommunicators) {
  auto group = std::make_shared<LocalGroup>(2);
  auto local = make_local_communicators(group);
  const Communicator* const first = local[0].get();
  const auto made = make_hierarchical_communicators(group, std::move(local), nullptr,
                                                    {.process = 0, .replicas = {2}});
  EXPECT_EQ(made[0].get(), first);
}

TEST(Hierarchical, RefusesALayoutThatDoesNotMatch) {
  const std::shared_ptr<ProcessCommunicator> across =
      make_process_communicator(cluster::testing::make_in_memory_memberships(1)[0]);
  const auto make = [&](ProcessLayout layout) {
    auto group = std::make_shared<LocalGroup>(2);
    return make_hierarchical_communicators(group, make_local_communicators(group), across, layout);
  };
  EXPECT_THROW(make({.process = 0, .replicas = {1, 1}}), Error);
  EXPECT_THROW(make({.process = 2, .replicas = {2, 2}}), Error);
  EXPECT_THROW(make({.process = 0, .replicas = {2, 0}}), Error);
  EXPECT_THROW(make({.process = 0, .replicas = {2, 2}}), Error);
}

TEST(Hierarchical, AStepThatFailedInOneProcessIsAbandonedInAll) {
  const std::vector<int> replicas = {2, 1};
  const auto memberships = cluster::testing::make_in_memory_memberships(2);
  std::atomic<int> abandoned = 0;
  std::vector<std::thread> processes;
  for (int process = 0; process < 2; ++process) {
    processes.emplace_back([&, process] {
      const int size = replicas[static_cast<std::size_t>(process)];
      const auto group = std::make_shared<LocalGroup>(
          size, LocalGroupOptions{.timeout = std::chrono::seconds(60),
                                  .spin = std::chrono::microseconds(0)});
      const std::shared_ptr<ProcessCommunicator> across =
          make_process_communicator(memberships[process], {.timeout = std::chrono::seconds(60)});
      const auto ranks =
          make_hierarchical_communicators(group, make_local_communicators(group), across,
                                          {.process = process, .replicas = replicas});
      for (int step = 0; step < 3; ++step) {
        const bool fails = step == 1 && process == 1;
        across->progress().begin_step();
        if (fails) across->progress().fail_step("it fell over");
        std::vector<std::thread> threads;
        for (int local = 0; local < size && !fails; ++local) {
          threads.emplace_back([&, local] {
            const at::Tensor value = at::full({3}, 1.0);
            try {
              ranks[local]->all_reduce({&value, 1}, ReduceOp::kSum)->wait();
              EXPECT_NE(step, 1);
              EXPECT_EQ(value[0].item<double>(), 3);
            } catch (const Error& error) {
              EXPECT_EQ(step, 1) << error.what();
              EXPECT_EQ(error.code(), ErrorCode::kAborted);
              EXPECT_NE(std::string(error.what()).find("it fell over"), std::string::npos)
                  << error.what();
              ++abandoned;
            }
          });
        }
        for (std::thread& thread : threads) thread.join();
        across->progress().end_step();
        group->reset();
      }
    });
  }
  for (std::thread& thread : processes) thread.join();
  EXPECT_EQ(abandoned, 2);
}

TEST(Hierarchical, AddsByTheTreeOfAllReplicas) {
  const at::Tensor expected =
      (((values_of(0) + values_of(1)) + (values_of(2) + values_of(3))) + values_of(4)).div(5.0);
  run_hierarchy_successfully({2, 3}, [&](Communicator& communicator) {
    ASSERT_EQ(communicator.world_size(), 5);
    const at::Tensor tensor = values_of(communicator.rank());
    communicator.all_reduce({&tensor, 1}, ReduceOp::kMean)->wait();
    EXPECT_TRUE(at::equal(tensor, expected));
  });
}

TEST(Hierarchical, SumsOfUnalignedProcessesKeepHalfInFloat32) {
  // In half 2048 + 1 is 2048, so a process's sum must not be rounded.
  run_hierarchy_successfully({3, 3}, [&](Communicator& communicator) {
    const at::Tensor tensor = at::full({7}, communicator.rank() == 0 ? 2048 : 1, at::kHalf);
    communicator.all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
    EXPECT_TRUE(at::equal(tensor, at::full({7}, 2053.0F).to(at::kHalf)));
  });
}

TEST(Hierarchical, SumsOverReplicasLeaveOutWhatIsMissing) {
  const std::vector<int> replicas = {1, 3};
  // [replica]: a replica's value, of which the second one is missing.
  const std::vector<at::Tensor> values = {values_of(0), {}, values_of(1), values_of(2)};
  const at::Tensor expected = values_of(0) + (values_of(1) + values_of(2));
  run_processes_successfully(2, {}, [&](ProcessCommunicator& communicator) {
    const ProcessLayout layout{.process = communicator.rank(), .replicas = replicas};
    const std::size_t first = static_cast<std::size_t>(layout.first_replica());
    const std::size_t count = communicator.rank() == 0 ? 1 : 3;
    const std::vector<std::vector<at::Tensor>> own = {
        {values.begin() + static_cast<std::ptrdiff_t>(first),
         values.begin() + static_cast<std::ptrdiff_t>(first + count)}};
    const auto sums = sum_over_replicas(&communicator, layout, own, {&values[0], 1});
    ASSERT_EQ(sums.size(), 1u);
    EXPECT_TRUE(at::equal(sums[0], expected));
  });
  EXPECT_TRUE(
      at::equal(sum_over_replicas(nullptr, {}, {&values, 1}, {&values[0], 1})[0], expected));
}

TEST(Hierarchical, UnevenProcessesGatherInRankOrder) {
  run_hierarchy_successfully({1, 3, 2}, [](Communicator& communicator) {
    const int rank = communicator.rank();
    const auto all = communicator.all_gather(at::full({rank + 1}, rank));
    ASSERT_EQ(all.size(), 6);
    for (int other = 0; other < 6; ++other)
      EXPECT_TRUE(at::equal(all[other], at::full({other + 1}, other)));
  });
}

TEST(Hierarchical, AFailureBetweenProcessesReleasesEveryReplica) {
  const auto thrown = run_hierarchy({2, 2}, [](Communicator& communicator) {
    const bool second_process = communicator.rank() >= 2;
    const at::Tensor tensor = at::full({second_process ? 3 : 2}, 1.0F);
    communicator.all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
  });
  for (const auto& error : thrown) {
    ASSERT_TRUE(error);
    try {
      std::rethrow_exception(error);
    } catch (const Error& caught) {
      const std::string text = caught.what();
      EXPECT_NE(text.find("Float[2]"), std::string::npos) << text;
      EXPECT_NE(text.find("Float[3]"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace brigade::comm
