// What LocalCommunicator does beyond the contract of every Communicator, which tests/contract
// checks.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/comm/testing/rank_threads.h"

namespace brigade::comm {
namespace {

at::Tensor values_of(int rank, std::int64_t size) {
  // Values whose sum depends on the order of additions.
  return at::arange(size, at::kFloat)
      .add(1)
      .reciprocal()
      .mul(rank == 0   ? 1e8
           : rank == 1 ? -1e8
                       : 1.0F);
}

TEST(LocalCommunicator, AddsByTheTreeInEveryShard) {
  constexpr std::int64_t kSize = 100'003;  // uneven shards of more than one block
  const at::Tensor expected =
      ((values_of(0, kSize) + values_of(1, kSize)) + (values_of(2, kSize) + values_of(3, kSize))) +
      values_of(4, kSize);
  run_ranks_successfully(5, [&](Communicator& communicator) {
    const at::Tensor tensor = values_of(communicator.rank(), kSize);
    communicator.all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
    EXPECT_TRUE(at::equal(tensor, expected));
  });
}

TEST(LocalGroup, BlocksOfRanksAreReducedByThemselves) {
  const std::vector<LeafRange> blocks = {{0, 1}, {1, 3}};  // rank 3 is in none
  const auto group = std::make_shared<LocalGroup>(4);
  run_threads(4, [&](int rank) {
    const at::Tensor flat = at::full({70'001}, rank + 1.0F);
    const at::Tensor whole = at::full({4}, rank + 1);  // not reduced in shards
    const std::vector<at::Tensor> tensors = {flat, whole};
    all_reduce_blocks(*group, rank, tensors, ReduceOp::kSum, blocks);
    const int expected = rank == 0 ? 1 : rank == 3 ? 4 : 5;
    EXPECT_TRUE(at::equal(flat, at::full({70'001}, static_cast<float>(expected)))) << rank;
    EXPECT_TRUE(at::equal(whole, at::full({4}, expected))) << rank;
  });
}

TEST(LocalCommunicator, ReducesWhatIsNotContiguous) {
  run_ranks_successfully(2, [](Communicator& communicator) {
    const at::Tensor storage = at::full({4, 6}, communicator.rank() + 1.0);
    const at::Tensor columns = storage.narrow(1, 1, 2);
    communicator.all_reduce({&columns, 1}, ReduceOp::kSum)->wait();
    EXPECT_EQ(storage.sum().item<double>(), 8 * 3 + 16 * (communicator.rank() + 1));
  });
}

TEST(LocalCommunicator, ReducesParametersWithoutAGraph) {
  run_ranks_successfully(2, [](Communicator& communicator) {
    const at::Tensor leaf = at::full({3}, 2.0).set_requires_grad(true);
    communicator.all_reduce({&leaf, 1}, ReduceOp::kMean)->wait();
    communicator.broadcast({&leaf, 1}, 0)->wait();
    EXPECT_TRUE(leaf.is_leaf());
    EXPECT_EQ(leaf.sum().item<double>(), 6);
  });
}

TEST(LocalCommunicator, AnErrorNamesBothShapes) {
  const auto thrown = run_ranks(2, [](Communicator& communicator) {
    const at::Tensor tensor = at::full({2 + communicator.rank()}, 1.0F);
    communicator.all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
  });
  for (const std::exception_ptr& error : thrown) {
    try {
      ASSERT_TRUE(error);
      std::rethrow_exception(error);
    } catch (const Error& caught) {
      EXPECT_EQ(caught.code(), ErrorCode::kInvalidArgument);
      const std::string text = caught.what();
      EXPECT_NE(text.find("Float[2]"), std::string::npos) << text;
      EXPECT_NE(text.find("Float[3]"), std::string::npos) << text;
    }
  }
}

TEST(LocalCommunicator, DifferentOperationsAreRefused) {
  const auto thrown = run_ranks(2, [](Communicator& communicator) {
    const at::Tensor tensor = at::full({2}, 1.0F);
    communicator
        .all_reduce({&tensor, 1}, communicator.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMean)
        ->wait();
  });
  EXPECT_TRUE(thrown[0]);
  EXPECT_TRUE(thrown[1]);
}

}  // namespace
}  // namespace brigade::comm
