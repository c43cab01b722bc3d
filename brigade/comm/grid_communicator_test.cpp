#include "brigade/comm/grid_communicator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "brigade/cluster/sub_membership.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/testing/process_threads.h"

namespace brigade::comm {
namespace {

constexpr int kRows = 2;
constexpr int kColumns = 3;

using GridBody = std::function<void(ProcessCommunicator& all, const GridGroups& groups)>;

void run_grid(const GridBody& body) {
  const auto memberships = cluster::testing::make_in_memory_memberships(kRows * kColumns);
  std::vector<std::exception_ptr> thrown(memberships.size());
  run_threads(kRows * kColumns, [&](int rank) {
    try {
      const auto group = [&](int first, int step, int count, const std::string& name) {
        std::vector<int> ranks;
        for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
        return std::shared_ptr<ProcessCommunicator>(make_process_communicator(
            std::make_shared<cluster::SubMembership>(memberships[rank], ranks, name),
            {.timeout = std::chrono::seconds(60)}));
      };
      const int row = rank / kColumns;
      const int column = rank % kColumns;
      const GridGroups groups{
          .column = group(column, kColumns, kRows, "column" + std::to_string(column)),
          .row = group(row * kColumns, 1, kColumns, "row" + std::to_string(row))};
      body(*make_grid_communicator(groups), groups);
    } catch (const std::exception& error) {
      thrown[rank] = std::current_exception();
      cluster::testing::lose(*memberships[rank], rank, error.what());
    }
  });
  rethrow_first(thrown);
}

/// Values whose sums depend on the order of additions.
at::Tensor grid_values_of(int rank) {
  return at::arange(50, at::kDouble).mul(0.37 + rank).sin().mul(rank == 1 ? 1e4 : 1).to(at::kFloat);
}

TEST(GridCommunicator, CombinesTheValuesOfAllRanksInTheirOrder) {
  std::vector<at::Tensor> values;
  for (int rank = 0; rank < kRows * kColumns; ++rank) values.push_back(grid_values_of(rank));
  run_grid([&](ProcessCommunicator& all, const GridGroups&) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax}) {
      const at::Tensor own = grid_values_of(all.rank());
      all.all_reduce({&own, 1}, op)->wait();
      EXPECT_TRUE(at::equal(own, combine_by_tree(values, op)));
    }
  });
}

TEST(GridCommunicator, GathersAndSendsToAll) {
  run_grid([&](ProcessCommunicator& all, const GridGroups&) {
    ASSERT_EQ(all.world_size(), kRows * kColumns);
    const auto gathered = all.all_gather(at::full({all.rank() + 1}, all.rank(), at::kLong));
    ASSERT_EQ(std::ssize(gathered), all.world_size());
    for (int rank = 0; rank < all.world_size(); ++rank)
      EXPECT_TRUE(at::equal(gathered[rank], at::full({rank + 1}, rank, at::kLong)));
    for (int root = 0; root < all.world_size(); ++root) {
      const at::Tensor value = grid_values_of(all.rank());
      all.broadcast({&value, 1}, root)->wait();
      EXPECT_TRUE(at::equal(value, grid_values_of(root))) << root;
    }
  });
}

TEST(GridCommunicator, AllHearOfAFailedStepWhateverTheyWaitFor) {
  for (int failing = 0; failing < kRows * kColumns; ++failing) {
    run_grid([&](ProcessCommunicator& all, const GridGroups& groups) {
      const auto step = [&](bool fails) {
        all.progress().begin_step();
        try {
          if (fails) throw std::runtime_error("broken");
          groups.column->barrier();
          groups.row->barrier();
          ADD_FAILURE() << "the step was made";
        } catch (const std::exception& error) {
          EXPECT_NE(std::string(error.what()).find("broken"), std::string::npos) << error.what();
          all.progress().fail_step(error.what());
        }
        all.progress().end_step();
      };
      step(all.rank() == failing);
      all.barrier();
      EXPECT_EQ(all.progress().stamp().run, 1u);
    });
  }
}

}  // namespace
}  // namespace brigade::comm
