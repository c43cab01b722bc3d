#include "brigade/comm/hierarchical.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/comm/testing/hierarchy_threads.h"

namespace brigade::comm {
namespace {

at::Tensor values_of(int rank) {
  return at::arange(50'001, at::kDouble)
      .mul(0.37 + rank)
      .sin()
      .mul(rank == 1 ? 1e4 : 1)
      .to(at::kFloat);
}

TEST(ProcessPlace, CountsReplicas) {
  const ProcessPlace place{.process = 1, .replicas = {2, 3, 1}};
  EXPECT_EQ(place.num_replicas(), 6);
  EXPECT_EQ(place.first_replica(), 2);
}

TEST(Hierarchical, OfOneProcessIsTheLocalOne) {
  auto group = std::make_shared<LocalGroup>(2);
  auto local = make_local_communicators(group);
  const Communicator* const first = local[0].get();
  const auto made = make_hierarchical_communicators(group, std::move(local), nullptr,
                                                    {.process = 0, .replicas = {2}});
  EXPECT_EQ(made[0].get(), first);
}

TEST(Hierarchical, RefusesAPlaceThatIsNotItsOwn) {
  const std::shared_ptr<Communicator> across =
      make_process_communicator(cluster::testing::make_in_memory_memberships(1)[0]);
  const auto make = [&](ProcessPlace place) {
    auto group = std::make_shared<LocalGroup>(2);
    return make_hierarchical_communicators(group, make_local_communicators(group), across, place);
  };
  EXPECT_THROW(make({.process = 0, .replicas = {1, 1}}), Error);
  EXPECT_THROW(make({.process = 2, .replicas = {2, 2}}), Error);
  EXPECT_THROW(make({.process = 0, .replicas = {2, 0}}), Error);
  EXPECT_THROW(make({.process = 0, .replicas = {2, 2}}), Error);
}

TEST(Hierarchical, AddsSumsOfProcessesInTheirOrder) {
  const at::Tensor expected =
      ((values_of(0) + values_of(1)) + ((values_of(2) + values_of(3)) + values_of(4))).div(5.0);
  run_hierarchy_successfully({2, 3}, [&](Communicator& communicator) {
    ASSERT_EQ(communicator.world_size(), 5);
    const at::Tensor tensor = values_of(communicator.rank());
    communicator.all_reduce({&tensor, 1}, ReduceOp::kMean)->wait();
    EXPECT_TRUE(at::equal(tensor, expected));
  });
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
