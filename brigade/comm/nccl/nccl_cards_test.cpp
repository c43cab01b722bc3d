// On fake GPUs; see testing/nccl_wire.h.
#include "brigade/comm/nccl/nccl_cards.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "brigade/base/testing/error_code.h"
#include "brigade/comm/nccl/nccl.h"
#include "brigade/comm/testing/nccl_wire.h"
#include "brigade/comm/testing/rank_threads.h"

namespace brigade::comm {
namespace {

using base::testing::code_of;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kCards = 2;

std::unique_ptr<NcclCards> make_cards(Wire& wire, milliseconds timeout = seconds(60)) {
  const std::vector<c10::Device> cards(kCards, c10::Device(c10::kCPU));
  return std::make_unique<NcclCards>(
      std::make_unique<WireClique>(wire, NcclCliqueOptions{.world_size = kCards, .cards = cards}),
      timeout);
}

/// A reduction of rank `rank` alone.
void reduce_on(NcclCards& cards, int rank) {
  const at::Tensor value = at::ones({2});
  cards.run(rank, {.kind = Collective::kAllReduce, .tensors = {&value, 1}});
}

/// What `rank` throws in its reduction.
Error error_on(NcclCards& cards, int rank) {
  try {
    reduce_on(cards, rank);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::kInternal, "");
}

bool says(const Error& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

TEST(NcclCards, DoNotWaitForTheGpus) {
  Wire wire;
  const auto cards = make_cards(wire);
  wire.is_busy = true;
  run_threads(kCards, [&](int rank) { EXPECT_NO_THROW(reduce_on(*cards, rank)); });
  EXPECT_EQ(wire.collectives, kCards);
  wire.is_busy = false;
  run_threads(kCards, [&](int rank) { EXPECT_NO_THROW(cards->finish(rank)); });
}

TEST(NcclCards, ARankThatFailsReleasesTheOthersWithinFiveSeconds) {
  Wire wire;
  wire.refusing_rank = 1;
  const auto cards = make_cards(wire);
  run_threads(kCards, [&](int rank) {
    const auto start = steady_clock::now();
    const Error error = error_on(*cards, rank);
    EXPECT_LT(steady_clock::now() - start, seconds(5));
    EXPECT_TRUE(says(error, "rank 1") && says(error, "unhandled cuda error")) << error.what();
    // Whoever comes late finds the group aborted.
    if (error.code() != ErrorCode::kAborted) EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    if (rank == 0) EXPECT_EQ(error.code(), ErrorCode::kAborted);
  });
  EXPECT_EQ(wire.aborts, 1) << "once, for all GPUs";
  EXPECT_EQ(error_on(*cards, 0).code(), ErrorCode::kAborted) << "the group has ended";
}

TEST(NcclCards, AnErrorOfTheGpusIsReportedOnAllRanks) {
  Wire wire;
  wire.stands_still = true;
  wire.failing_rank = 0;
  const auto cards = make_cards(wire);
  run_threads(kCards, [&](int rank) { EXPECT_TRUE(says(error_on(*cards, rank), "rank 0")); });
  EXPECT_EQ(wire.aborts, 1);
}

TEST(NcclCards, ARankThatDoesNotMakeItsCallReleasesTheOthers) {
  Wire wire;
  const auto cards = make_cards(wire);
  run_threads(kCards, [&](int rank) {
    if (rank == 1) {
      while (wire.collectives == 0) std::this_thread::yield();
      return cards->abandon(1, "out of memory");
    }
    const Error error = error_on(*cards, 0);
    EXPECT_EQ(error.code(), ErrorCode::kAborted);
    EXPECT_TRUE(says(error, "rank 1 failed: out of memory")) << error.what();
  });
  EXPECT_EQ(wire.aborts, 1);
}

TEST(NcclCards, ARankThatNeverComesIsAnErrorAtTheDeadline) {
  Wire wire;
  const auto cards = make_cards(wire, milliseconds(30));
  EXPECT_EQ(error_on(*cards, 0).code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(wire.aborts, 1);
}

TEST(NcclCards, CloseInGoodOrder) {
  Wire wire;
  {
    const auto cards = make_cards(wire);
    run_threads(kCards, [&](int rank) { reduce_on(*cards, rank); });
  }
  EXPECT_EQ(wire.closed, kCards);
  EXPECT_EQ(wire.aborts, 0);
}

std::vector<std::unique_ptr<Communicator>> on_cards(const NcclLibrary& library,
                                                    const std::vector<int>& cards) {
  return make_nccl_communicators(
      library, cards, make_local_communicators(std::make_shared<LocalGroup>(kCards)), seconds(60));
}

TEST(NcclCards, MakeCommunicatorsOfOneProcess) {
  Wire wire;
  const WireLibrary library(wire);
  const auto ranks = on_cards(library, {0, 1});
  run_threads(kCards, [&](int rank) {
    const at::Tensor value = at::full({3}, rank + 1.0);
    ranks[static_cast<std::size_t>(rank)]->all_reduce({&value, 1}, ReduceOp::kSum)->wait();
    ranks[static_cast<std::size_t>(rank)]->finish();
    EXPECT_EQ(value[0].item<double>(), 3);
  });
  EXPECT_EQ(wire.collectives, kCards);
}

TEST(NcclCards, RefuseTwoRanksOnOneGpu) {
  Wire wire;
  const WireLibrary library(wire);
  EXPECT_EQ(code_of([&] { on_cards(library, {0, 0}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { on_cards(library, {0}); }), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::comm
