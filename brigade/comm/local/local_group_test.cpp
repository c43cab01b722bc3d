#include "brigade/comm/local/local_group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/sanitizer.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/device/stream.h"
#include "brigade/device/testing/fake_device.h"

namespace brigade::comm {
namespace {

using base::testing::code_of;
using device::testing::FakeDevice;

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

TEST(LocalGroup, PublishedTensorsLiveWhileAnotherRankReadsEvenIfTheirRankLeftAfterAnAbort) {
  LocalGroup group(2, patient());
  std::atomic<bool> is_freed = false;
  std::latch reads(1), has_left(1);
  std::thread leaves([&] {
    float value = 7;
    at::Tensor mine = at::from_blob(
        &value, {1}, [&](void*) { is_freed = true; }, at::kFloat);
    EXPECT_EQ(code_of([&] {
                group.exchange(1, {.name = "show"}, {&mine, 1}, [] {});
              }),
              ErrorCode::kAborted);
    mine.reset();
    has_left.count_down();
    reads.wait();  // `value` lives until then
  });
  const at::Tensor own = at::full({1}, 1);
  EXPECT_EQ(code_of([&] {
              group.exchange(0, {.name = "show"}, {&own, 1}, [&] {
                group.abort(0, "enough");
                has_left.wait();
                EXPECT_FALSE(is_freed);
                reads.count_down();
              });
            }),
            ErrorCode::kAborted);
  leaves.join();
  group.reset();
  EXPECT_TRUE(is_freed);
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

/// A rank on the fake device: its stream is current while it lives.
class RankOnCard {
 public:
  RankOnCard() : scope_(device::make_stream({.torch_device = FakeDevice::device()})) {}

  at::Tensor make(int value) {
    const at::Tensor tensor =
        at::empty({4}, at::TensorOptions(at::kInt).device(FakeDevice::device()));
    write(tensor, value);
    return tensor;
  }
  /// Queued: nothing is written yet.
  static void write(const at::Tensor& tensor, int value) {
    const at::Tensor pinned =
        at::empty({4}, at::TensorOptions(at::kInt).pinned_memory(true)).fill_(value);
    tensor.copy_(pinned, /*non_blocking=*/true);
  }
  /// Runs all that was queued on this rank's stream, and what that waits for.
  static int read(const at::Tensor& tensor) { return FakeDevice::read(tensor)[3].item<int>(); }

 private:
  device::StreamScope scope_;
};

TEST(LocalGroup, OnACardARankThatOnlyReadsIsWaitedFor) {
  FakeDevice::get();
  LocalGroup group(2, patient());
  run_two([&](int rank) {
    RankOnCard card;
    const at::Tensor tensor = card.make(rank == 0 ? 7 : 0);
    const std::span<const at::Tensor> shown = {&tensor, rank == 0 ? 1U : 0U};
    group.exchange(rank, {.name = "show"}, shown, [&] {
      if (rank == 1) tensor.copy_(group.published(0)[0]);
    });
    if (rank == 0) {
      card.write(tensor, 8);
      EXPECT_EQ(card.read(tensor), 8);
    }
    group.barrier(rank);
    if (rank == 1) EXPECT_EQ(card.read(tensor), 7) << "it was overwritten before it was read";
  });
}

/// The host threads of the ranks come to each step in every order.
class Delays {
 public:
  explicit Delays(int rank) : random_(static_cast<unsigned>(rank)) {}
  void operator()() {
    for (unsigned yields = random_() % 4; yields > 0; --yields) std::this_thread::yield();
  }

 private:
  std::minstd_rand random_;
};

// A round takes two barriers, and on a busy machine a barrier takes milliseconds.
#ifdef BRIGADE_HAS_SANITIZER
constexpr int kExchanges = 10'000;
#else
constexpr int kExchanges = 1'000;
#endif

TEST(LocalGroup, OnACardManyExchangesOfDelayedRanksReadWhatWasPublished) {
  FakeDevice::get();
  constexpr int kRanks = 3;
  LocalGroup group(kRanks, patient());
  std::atomic<int> wrong = 0;
  const auto value = [](int rank, int round) { return kRanks * round + rank; };
  const auto body = [&](int rank) {
    RankOnCard card;
    Delays delay(rank);
    const at::Tensor mine = card.make(0);
    const std::vector<at::Tensor> copies = {card.make(0), card.make(0), card.make(0)};
    const bool is_reader = rank == 2;  // publishes nothing
    for (int round = 0; round < kExchanges; ++round) {
      card.write(mine, value(rank, round));
      delay();
      const std::span<const at::Tensor> shown = {&mine, is_reader ? 0U : 1U};
      group.exchange(rank, {.name = "show"}, shown, [&] {
        for (int other = 0; other < 2; ++other) {
          delay();
          copies[other].copy_(group.published(other)[0]);
        }
        delay();
      });
      card.write(mine, -1);
      for (int other = 0; other < 2; ++other) {
        if (card.read(copies[other]) != value(other, round)) ++wrong;
        delay();
      }
    }
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < kRanks; ++rank) others.emplace_back(body, rank);
  body(0);
  for (std::thread& other : others) other.join();
  EXPECT_EQ(wrong, 0);
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
