#include "brigade/concurrency/cancel_token.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::concurrency {
namespace {

TEST(CancelToken, IsSharedByItsCopies) {
  const CancelToken token;
  const CancelToken copy = token;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_FALSE(copy.is_cancelled());
  token.cancel();
  EXPECT_TRUE(copy.is_cancelled());
  EXPECT_EQ(token, copy);
}

TEST(CancelToken, DoesNotTouchOtherTokens) {
  const CancelToken token;
  const CancelToken other;
  token.cancel();
  EXPECT_FALSE(other.is_cancelled());
  EXPECT_FALSE(token == other);
}

TEST(CancelToken, RunsEachCallbackOnce) {
  const CancelToken token;
  int first = 0;
  int second = 0;
  const CancelRegistration a = token.on_cancel([&] { ++first; });
  const CancelRegistration b = token.on_cancel([&] { ++second; });
  EXPECT_EQ(first, 0);
  token.cancel();
  token.cancel();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(CancelToken, RunsACallbackImmediatelyIfAlreadyCancelled) {
  const CancelToken token;
  token.cancel();
  int calls = 0;
  const CancelRegistration registration = token.on_cancel([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(CancelToken, ThrowsOnlyOnceCancelled) {
  const CancelToken token;
  EXPECT_NO_THROW(token.throw_if_cancelled("reading"));
  token.cancel();
  try {
    token.throw_if_cancelled("reading");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
    EXPECT_STREQ(error.what(), "reading: cancelled");
  }
}

TEST(CancelRegistration, RemovesTheCallbackAtItsEnd) {
  const CancelToken token;
  int calls = 0;
  {
    const CancelRegistration registration = token.on_cancel([&] { ++calls; });
  }
  token.cancel();
  EXPECT_EQ(calls, 0);
}

TEST(CancelRegistration, MovesWithItsCallback) {
  const CancelToken token;
  int calls = 0;
  std::vector<CancelRegistration> kept;
  kept.push_back(token.on_cancel([&] { ++calls; }));
  kept.push_back(token.on_cancel([&] { ++calls; }));
  token.cancel();
  EXPECT_EQ(calls, 2);
}

TEST(CancelRegistration, WaitsForACallbackThatRuns) {
  const CancelToken token;
  std::promise<void> entered;
  std::promise<void> may_end;
  std::atomic<bool> has_ended{false};
  auto registration = std::make_unique<CancelRegistration>(token.on_cancel([&] {
    entered.set_value();
    may_end.get_future().wait();
    has_ended = true;
  }));
  std::thread canceller([&] { token.cancel(); });
  entered.get_future().wait();
  std::thread ender([&] { may_end.set_value(); });
  registration.reset();
  EXPECT_TRUE(has_ended);
  ender.join();
  canceller.join();
}

TEST(CancelToken, ManyThreadsMayRegisterWhileOneCancels) {
  const CancelToken token;
  std::atomic<int> calls{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!token.is_cancelled()) {
        const CancelRegistration registration = token.on_cancel([&] { ++calls; });
      }
      const CancelRegistration late = token.on_cancel([&] { ++calls; });
    });
  }
  token.cancel();
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(calls, 4);
}

TEST(InterruptibleWait, EndsWithItsTimeOrWhenTheTokenIsCancelled) {
  using namespace std::chrono_literals;
  const CancelToken token;
  const auto begin = std::chrono::steady_clock::now();
  interruptible_wait(5ms, token);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 5ms);
  auto waiting = std::async(std::launch::async, [&] { interruptible_wait(1h, token); });
  EXPECT_EQ(waiting.wait_for(5ms), std::future_status::timeout);
  token.cancel();
  EXPECT_EQ(waiting.wait_for(1min), std::future_status::ready);
  interruptible_wait(1h, token);  // cancelled already
}

TEST(LinkedToken, IsCancelledWithTheOuterOne) {
  const CancelToken outer;
  const LinkedToken linked(outer);
  EXPECT_FALSE(linked.token().is_cancelled());
  outer.cancel();
  EXPECT_TRUE(linked.token().is_cancelled());
  EXPECT_TRUE(LinkedToken(outer).token().is_cancelled()) << "also of one that already is";
}

TEST(LinkedToken, LeavesTheOuterOneAlone) {
  const CancelToken outer;
  const LinkedToken linked(outer);
  linked.cancel();
  EXPECT_TRUE(linked.token().is_cancelled());
  EXPECT_FALSE(outer.is_cancelled());
}

TEST(LinkedToken, WithoutAnOuterTokenIsIndependent) {
  const LinkedToken linked(std::nullopt);
  EXPECT_FALSE(linked.token().is_cancelled());
  linked.cancel();
  EXPECT_TRUE(linked.token().is_cancelled());
}

TEST(LinkedToken, OutlivesItsLink) {
  const CancelToken outer;
  CancelToken copy;
  {
    const LinkedToken linked(outer);
    copy = linked.token();
  }
  outer.cancel();
  EXPECT_FALSE(copy.is_cancelled());
}

}  // namespace
}  // namespace brigade::concurrency
