// NCCL communicators of one process, on fake GPUs; tests/contract checks the contract of every
// Communicator.
#include "brigade/comm/nccl/nccl_communicator.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <optional>

#include "brigade/base/error.h"
#include "brigade/comm/testing/nccl_wire.h"
#include "brigade/comm/testing/rank_threads.h"

namespace brigade::comm {
namespace {

/// Calls `body` for each of `world` replicas of one process with fake GPUs; [rank]: what it threw.
std::vector<std::optional<Error>> run_cards(Wire& wire, int world,
                                            const std::function<void(Communicator&)>& body) {
  const auto runner = std::make_shared<PromptWire>(wire, world);
  const auto thrown = run_ranks(world, body, [&](std::shared_ptr<LocalGroup> group) {
    std::vector<std::unique_ptr<Communicator>> all;
    for (auto& local : make_local_communicators(std::move(group))) {
      const int rank = local->rank();
      all.push_back(make_nccl_communicator(runner, rank, std::move(local)));
    }
    return all;
  });
  std::vector<std::optional<Error>> errors(thrown.size());
  for (std::size_t rank = 0; rank < thrown.size(); ++rank) {
    try {
      if (thrown[rank]) std::rethrow_exception(thrown[rank]);
    } catch (const Error& error) {
      errors[rank] = error;
    }
  }
  return errors;
}

/// Tensors that differ between ranks are refused on all of them, naming both, before NCCL gets a
/// call.
void expect_refused(const std::function<at::Tensor(int)>& tensor_of, const std::string& one,
                    const std::string& other) {
  Wire wire;
  const auto errors = run_cards(wire, 2, [&](Communicator& ranks) {
    const at::Tensor tensor = tensor_of(ranks.rank());
    ranks.all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error->what()).find(one), std::string::npos) << error->what();
    EXPECT_NE(std::string(error->what()).find(other), std::string::npos) << error->what();
  }
  EXPECT_EQ(wire.collectives, 0);
}

TEST(NcclCommunicator, ShapesThatDifferAreRefusedOnAllRanks) {
  expect_refused([](int rank) { return at::ones({2 + rank}); }, "Float[2]", "Float[3]");
}

TEST(NcclCommunicator, DtypesThatDifferAreRefusedOnAllRanks) {
  expect_refused([](int rank) { return at::ones({2}, rank == 0 ? at::kFloat : at::kDouble); },
                 "Float[2]", "Double[2]");
}

TEST(NcclCommunicator, ADtypeThatOnlyOneRankCouldSendIsRefusedOnAllRanks) {
  expect_refused([](int rank) { return at::ones({2}, rank == 0 ? at::kFloat : at::kBool); },
                 "Float[2]", "Bool[2]");
}

TEST(NcclCommunicator, TensorsThatNcclDoesNotSupportUseTheHostAndTheNextCallWorks) {
  Wire wire;
  const auto errors = run_cards(wire, 2, [&](Communicator& ranks) {
    // NCCL does not support the second tensor; it must not start a group with the first.
    const std::vector<at::Tensor> mixed = {at::ones({2}), at::full({1}, ranks.rank(), at::kBool)};
    ranks.all_reduce(mixed, ReduceOp::kMax)->wait();
    EXPECT_TRUE(mixed[1].item<bool>());
    const at::Tensor value = at::full({3}, ranks.rank() + 1.0);
    ranks.all_reduce({&value, 1}, ReduceOp::kSum)->wait();
    EXPECT_EQ(value[0].item<double>(), 3);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
  EXPECT_EQ(wire.collectives, 2);
}

}  // namespace
}  // namespace brigade::comm
