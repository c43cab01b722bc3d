#include "brigade/comm/local/local_group.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"

namespace brigade::comm {
namespace {

using base::testing::code_of;

LocalGroupOptions patient() {
  return {.timeout = std::chrono::seconds(60), .spin = std::chrono::microseconds(0)};
}

template <class Body>
void run_two(const Body& body) {
  std::thread other([&] { body(1); });
  body(0);
  other.join();
}

TEST(LocalGroup, RefusesFewerThanOneRank) {
  EXPECT_THROW(LocalGroup(0), Error);
}

TEST(LocalGroup, AnExchangePublishesEveryRanksTensors) {
  LocalGroup group(2, patient());
  run_two([&](int rank) {
    for (int round = 0; round < 20; ++round) {
      const at::Tensor mine = at::full({3}, 10 * round + rank);
      group.exchange(rank, {.name = "show"}, {&mine, 1}, [&] {
        EXPECT_EQ(group.published(1 - rank)[0][2].item<int>(), 10 * round + 1 - rank);
      });
    }
  });
}

TEST(LocalGroup, PublishedTensorsLiveUntilEveryRankIsDoneEvenIfABodyThrows) {
  LocalGroup group(2, patient());
  std::atomic<int> alive = 0;
  run_two([&](int rank) {
    struct Counted {
      explicit Counted(std::atomic<int>& c) : count(c) { ++count; }
      ~Counted() { --count; }
      std::atomic<int>& count;
    };
    const auto call = [&] {
      const at::Tensor mine = at::full({1}, rank);
      const Counted counted(alive);
      group.exchange(rank, {.name = "show"}, {&mine, 1}, [&] {
        if (rank == 1) throw std::runtime_error("gives up");
        std::this_thread::yield();
        EXPECT_EQ(alive, 2);
        EXPECT_EQ(group.published(1)[0].item<int>(), 1);
      });
    };
    if (rank == 1) {
      EXPECT_THROW(call(), std::runtime_error);
    } else {
      call();
    }
  });
}

TEST(LocalGroup, DifferentCallsAreAnErrorInEveryRank) {
  LocalGroup group(2, patient());
  const at::Tensor tensor = at::full({1}, 1);
  run_two([&](int rank) {
    const auto call = [&] {
      if (rank == 0) return group.barrier(0);
      group.exchange(1, {.name = "show"}, {&tensor, 1},
                     [] { FAIL() << "rank 0 has published nothing"; });
    };
    const ErrorCode code = code_of(call);
    // The rank that compares second may find the group aborted by the first.
    EXPECT_TRUE(code == ErrorCode::kFailedPrecondition || code == ErrorCode::kAborted);
  });
  group.reset();
  run_two([&](int rank) { EXPECT_NO_THROW(group.barrier(rank)); });
}

TEST(LocalGroup, DifferentRootsAreDifferentCalls) {
  LocalGroup group(2, patient());
  run_two([&](int rank) {
    EXPECT_NE(
        code_of([&] { group.exchange(rank, {.name = "broadcast", .root = rank}, {}, [] {}); }),
        ErrorCode::kInternal);
  });
}

TEST(LocalGroup, BarriersInQuickSuccessionAreNotTakenForDifferentCalls) {
  LocalGroup group(2, patient());
  run_two([&](int rank) {
    for (int round = 0; round < 200; ++round) {
      group.barrier(rank);
      group.exchange(rank, {.name = "a"}, {}, [] {});
      group.barrier(rank);
      group.exchange(rank, {.name = "b"}, {}, [] {});
    }
  });
}

TEST(LocalGroup, AnAbortReleasesWaitersAndAResetClearsIt) {
  LocalGroup group(2, patient());
  group.abort(1, "replica 1 failed");
  EXPECT_EQ(code_of([&] { group.barrier(0); }), ErrorCode::kAborted);
  group.reset();
  group.leave(1);
  EXPECT_EQ(code_of([&] { group.barrier(0); }), ErrorCode::kFailedPrecondition);
  group.reset();
  run_two([&](int rank) { EXPECT_NO_THROW(group.barrier(rank)); });
}

}  // namespace
}  // namespace brigade::comm
