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

TEST(LocalCommunicator, AddsInRankOrderInEveryShard) {
  constexpr std::int64_t kSize = 100'003;  // uneven shards of more than one block
  const at::Tensor expected = (values_of(0, kSize) + values_of(1, kSize)) + values_of(2, kSize);
  run_ranks_successfully(3, [&](Communicator& communicator) {
    const at::Tensor tensor = values_of(communicator.rank(), kSize);
    communicator.all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
    EXPECT_TRUE(at::equal(tensor, expected));
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
