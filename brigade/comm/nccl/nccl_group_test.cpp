#include "brigade/comm/nccl/nccl_group.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/testing/nccl_wire.h"
#include "brigade/device/stream.h"
#include "brigade/device/testing/fake_device.h"

namespace brigade::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// A member's group, with one fake GPU.
struct TestMember {
  NcclGroup& group;
  cluster::Membership& membership;
  int rank;

  void reduce() const {
    const at::Tensor value = at::ones({2});
    group.run(0, {.kind = Collective::kAllReduce, .tensors = {&value, 1}});
    group.finish(0);
    EXPECT_EQ(value[0].item<float>(), static_cast<float>(membership.members().size()));
  }
  /// A reduction that is only queued.
  void queue_reduction() const {
    const at::Tensor value = at::ones({2});
    group.run(0, {.kind = Collective::kAllReduce, .tensors = {&value, 1}});
  }
};

/// Calls `body` in one thread per member, with the timeout `timeouts[rank]`; [rank]: what it threw.
std::vector<std::optional<Error>> run_members(Wire& wire, const std::vector<milliseconds>& timeouts,
                                              const std::function<void(const TestMember&)>& body) {
  const int size = static_cast<int>(timeouts.size());
  const auto memberships = cluster::testing::make_in_memory_memberships(size);
  std::vector<std::optional<Error>> thrown(timeouts.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const NcclCliqueOptions options{
          .world_size = size, .first_rank = rank, .cards = {c10::Device(c10::kCPU)}};
      try {
        NcclGroup group(std::make_unique<WireClique>(wire, options), memberships[rank], "nccl/0/1",
                        {.timeout = timeouts[rank]});
        body({group, *memberships[rank], rank});
      } catch (const Error& error) {
        thrown[rank] = error;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

bool mentions_text(const std::optional<Error>& error, std::string_view text) {
  return error && std::string_view(error->what()).find(text) != std::string_view::npos;
}

TEST(NcclGroup, WaitsForTheGpus) {
  Wire wire;
  for (const auto& error :
       run_members(wire, {seconds(60), seconds(60)}, [](const TestMember& test_member) {
         test_member.reduce();
         test_member.reduce();
       }))
    EXPECT_FALSE(error) << error->what();
  EXPECT_EQ(wire.closed, 2);
  EXPECT_EQ(wire.aborts, 0);
}

TEST(NcclGroup, QueuesCollectivesWithoutWaitingForTheGpus) {
  Wire wire;
  wire.is_busy = true;
  std::atomic<int> queued = 0;
  for (const auto& error :
       run_members(wire, {seconds(60), seconds(60)}, [&](const TestMember& test_member) {
         for (int i = 0; i < 3; ++i) test_member.queue_reduction();
         if (++queued == 2) wire.is_busy = false;
         test_member.group.finish(0);
       }))
    EXPECT_FALSE(error) << error->what();
  EXPECT_EQ(wire.collectives, 6);
  EXPECT_EQ(wire.aborts, 0);
}

constexpr int kBoth = 2;

// Both members queue collectives on their streams of the fake card, and read the last one's result.
TEST(NcclGroup, ResultsAreOrderedOnTheCallersStreamAndTheHostWaitsOnlyToReadThem) {
  using device::testing::FakeDevice;
  FakeDevice& card = FakeDevice::get();
  Wire wire;
  std::atomic<int> queued = 0;
  std::atomic<int> waits = 0;
  for (const auto& error :
       run_members(wire, {seconds(60), seconds(60)}, [&](const TestMember& test_member) {
         const device::StreamScope on_stream(
             device::make_stream({.torch_device = FakeDevice::device()}));
         const at::Tensor value = at::full({4}, test_member.rank + 1.0F,
                                           at::TensorOptions(at::kFloat).pinned_memory(true))
                                      .to(FakeDevice::device(), /*non_blocking=*/true);
         const int before = card.host_waits();
         for (int i = 0; i < 3; ++i)
           test_member.group.run(0, {.kind = Collective::kAllReduce, .tensors = {&value, 1}});
         const at::Tensor copy = value.clone();  // queued behind them
         waits += card.host_waits() - before;
         ++queued;
         while (queued < kBoth) std::this_thread::yield();
         EXPECT_EQ(FakeDevice::read(copy)[3].item<float>(), 12.0F);  // (1 + 2) * 2 * 2
         test_member.group.finish(0);
       }))
    EXPECT_FALSE(error) << error->what();
  EXPECT_EQ(waits, 0);
  EXPECT_EQ(wire.collectives, 6);
}

TEST(NcclGroup, AMemberLostWhileTheGpusComputeIsNamedByTheNextCall) {
  Wire wire;
  wire.is_busy = true;
  const auto thrown =
      run_members(wire, {seconds(60), seconds(60)}, [&](const TestMember& test_member) {
        test_member.queue_reduction();
        if (test_member.rank == 1) {
          while (wire.collectives < kBoth) std::this_thread::yield();
          cluster::testing::lose(test_member.membership, 1, "it was killed");
        }
        while (wire.aborts < kBoth) std::this_thread::yield();  // by the watchers
        test_member.queue_reduction();
      });
  ASSERT_TRUE(thrown[0]);
  EXPECT_EQ(thrown[0]->code(), ErrorCode::kUnavailable) << thrown[0]->what();
  EXPECT_TRUE(mentions_text(thrown[0], "/job:worker/task:1") &&
              mentions_text(thrown[0], "it was killed"));
  EXPECT_EQ(wire.collectives, kBoth) << "none is started after a failure";
}

TEST(NcclGroup, FinishReportsAnErrorOfTheGpus) {
  Wire wire;
  wire.is_busy = true;
  const auto thrown =
      run_members(wire, {milliseconds(200), seconds(60)}, [](const TestMember& test_member) {
        test_member.queue_reduction();
        EXPECT_THROW(test_member.group.finish(0), Error);
        test_member.group.throw_if_failed();
      });
  ASSERT_TRUE(thrown[0] && thrown[1]);
  EXPECT_EQ(thrown[0]->code(), ErrorCode::kDeadlineExceeded) << thrown[0]->what();
  EXPECT_EQ(thrown[1]->code(), ErrorCode::kAborted) << thrown[1]->what();
}

TEST(NcclGroup, GivesUpAtTheDeadlineAndNotifiesTheOthers) {
  Wire wire;
  wire.stands_still = true;
  const auto thrown = run_members(wire, {milliseconds(100), seconds(60)},
                                  [](const TestMember& test_member) { test_member.reduce(); });
  ASSERT_TRUE(thrown[0] && thrown[1]);
  EXPECT_EQ(thrown[0]->code(), ErrorCode::kDeadlineExceeded) << thrown[0]->what();
  EXPECT_EQ(thrown[1]->code(), ErrorCode::kAborted) << thrown[1]->what();
  EXPECT_TRUE(mentions_text(thrown[1], "/job:worker/task:0") && mentions_text(thrown[1], "100 ms"));
  EXPECT_EQ(wire.aborts, 2);
}

TEST(NcclGroup, ABrokenConnectionNamesTheLostMemberInEveryLaterCall) {
  Wire wire;
  wire.failing_rank = 0;
  wire.stands_still = true;
  const auto thrown =
      run_members(wire, {seconds(60), seconds(60)}, [&](const TestMember& test_member) {
        if (test_member.rank == 0) {
          try {
            test_member.reduce();
          } catch (const Error& first) {
            EXPECT_THROW(test_member.reduce(), Error);
            throw;
          }
        } else {
          // NCCL has failed on the other member before the membership knows why.
          while (wire.aborts == 0) std::this_thread::yield();
          cluster::testing::lose(test_member.membership, 1, "it was killed");
        }
      });
  ASSERT_TRUE(thrown[0]);
  EXPECT_EQ(thrown[0]->code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(mentions_text(thrown[0], "/job:worker/task:1") &&
              mentions_text(thrown[0], "it was killed"))
      << thrown[0]->what();
  EXPECT_EQ(wire.collectives, 1) << "none is started after a failure";
}

TEST(NcclGroup, DoesNotWaitForeverForTheOthersToClose) {
  Wire wire;
  wire.closes = false;
  const auto start = steady_clock::now();
  run_members(wire, {milliseconds(100), milliseconds(100)}, [](const TestMember&) {});
  EXPECT_LT(steady_clock::now() - start, seconds(4)) << "of the five without the timeout";
}

TEST(NcclGroup, ClosesImmediatelyIfAMemberIsLost) {
  Wire wire;
  wire.closes = false;
  const auto start = steady_clock::now();
  run_members(wire, {seconds(60)}, [](const TestMember& test_member) {
    cluster::testing::lose(test_member.membership, 0, "it was killed");
  });
  EXPECT_LT(steady_clock::now() - start, seconds(4)) << "of five";
}

}  // namespace
}  // namespace brigade::comm
