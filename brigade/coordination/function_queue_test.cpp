#include "brigade/coordination/function_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"

namespace brigade::coordination {
namespace {

using FunctionId = FunctionQueue::Id;
using Settlement = FunctionQueue::Settlement;

constexpr auto kSucceeded = FunctionOutcome::kSucceeded;
constexpr auto kFailed = FunctionOutcome::kFailed;

const Incarnation kFirstWorker = {.task = "/job:worker/task:0", .number = 1};
const Incarnation kSecondWorker = {.task = "/job:worker/task:1", .number = 1};

FunctionQueue queue_of(int functions, FunctionQueueOptions options = {}) {
  FunctionQueue queue(options);
  for (int i = 0; i < functions; ++i) queue.add();
  return queue;
}

TEST(FunctionQueue, WorkersGetFunctionsInTheirOrder) {
  FunctionQueue queue = queue_of(3);
  EXPECT_EQ(queue.next(kFirstWorker), 1);
  EXPECT_EQ(queue.next(kSecondWorker), 2);
  EXPECT_EQ(queue.finish(kSecondWorker, 2, kSucceeded), (Settlement{.succeeded = 2}));
  EXPECT_EQ(queue.next(kSecondWorker), 3);
  EXPECT_EQ(queue.finish(kFirstWorker, 1, kSucceeded), (Settlement{.succeeded = 1}));
  EXPECT_EQ(queue.next(kFirstWorker), std::nullopt);
  EXPECT_FALSE(queue.is_idle());
  queue.finish(kSecondWorker, 3, kSucceeded);
  EXPECT_TRUE(queue.is_idle());
}

TEST(FunctionQueue, AWorkerThatAsksAgainGetsTheSame) {
  FunctionQueue queue = queue_of(2);
  EXPECT_EQ(queue.next(kFirstWorker), 1);
  EXPECT_EQ(queue.next(kFirstWorker), 1);
  EXPECT_EQ(queue.queued(), 1u);
}

TEST(FunctionQueue, ARepeatedReportSettlesNothing) {
  FunctionQueue queue = queue_of(2);
  queue.next(kFirstWorker);
  queue.finish(kFirstWorker, 1, kSucceeded);
  EXPECT_EQ(queue.finish(kFirstWorker, 1, kSucceeded), Settlement{});
  queue.next(kFirstWorker);
  EXPECT_EQ(queue.finish(kFirstWorker, 1, kFailed), Settlement{});
  EXPECT_FALSE(queue.has_error());
  EXPECT_TRUE(queue.is_wanted(kFirstWorker, 2));
}

TEST(FunctionQueue, TheFunctionOfALostWorkerIsRunAgainBeforeLaterOnes) {
  FunctionQueue queue = queue_of(3);
  queue.next(kFirstWorker);
  queue.next(kSecondWorker);
  EXPECT_EQ(queue.lose(kFirstWorker), Settlement{});
  EXPECT_EQ(queue.finish(kFirstWorker, 1, kSucceeded), Settlement{}) << "it was thought lost";
  queue.finish(kSecondWorker, 2, kSucceeded);
  EXPECT_EQ(queue.next(kSecondWorker), 1);
}

TEST(FunctionQueue, ALaterIncarnationDoesNotInheritAFunction) {
  FunctionQueue queue = queue_of(2);
  queue.next(kFirstWorker);
  const Incarnation successor = {.task = kFirstWorker.task, .number = 2};
  EXPECT_FALSE(queue.is_wanted(successor, 1));
  EXPECT_EQ(queue.finish(successor, 1, kSucceeded), Settlement{});
  queue.lose(kFirstWorker);
  EXPECT_EQ(queue.next(successor), 1);
}

TEST(FunctionQueue, AnErrorCancelsTheOthersAndIsTakenOnce) {
  FunctionQueue queue = queue_of(4);
  queue.next(kFirstWorker);
  queue.next(kSecondWorker);
  EXPECT_EQ(queue.finish(kSecondWorker, 2, kFailed),
            (Settlement{.failed = 2, .cancelled = {1, 3, 4}}));
  EXPECT_TRUE(queue.has_error());
  EXPECT_EQ(base::testing::code_of([&] { queue.add(); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(queue.next(kSecondWorker), std::nullopt);
  EXPECT_FALSE(queue.is_wanted(kFirstWorker, 1));
  EXPECT_FALSE(queue.is_idle()) << "a worker still runs one of them";
  queue.take_error();
  EXPECT_EQ(queue.add(), 5);
  EXPECT_EQ(queue.finish(kFirstWorker, 1, kFailed), Settlement{}) << "it was cancelled";
  EXPECT_FALSE(queue.has_error());
  EXPECT_EQ(queue.next(kFirstWorker), 5);
}

TEST(FunctionQueue, ACancelledFunctionOfALostWorkerIsGone) {
  FunctionQueue queue = queue_of(1);
  queue.next(kFirstWorker);
  EXPECT_EQ(queue.cancel(), (Settlement{.cancelled = {1}}));
  EXPECT_EQ(queue.cancel(), Settlement{});
  EXPECT_FALSE(queue.is_idle());
  EXPECT_EQ(queue.lose(kFirstWorker), Settlement{});
  EXPECT_TRUE(queue.is_idle());
}

TEST(FunctionQueue, AWorkerThatAsksHasEndedACancelledFunction) {
  FunctionQueue queue = queue_of(1);
  queue.next(kFirstWorker);
  queue.cancel();
  queue.add();
  EXPECT_EQ(queue.next(kFirstWorker), 2);
  EXPECT_EQ(queue.running(), 1u);
}

TEST(FunctionQueue, AFunctionThatEndsItsWorkersFails) {
  FunctionQueue queue = queue_of(2, {.max_losses = 2});
  queue.next(kFirstWorker);
  EXPECT_EQ(queue.lose(kFirstWorker), Settlement{});
  EXPECT_EQ(queue.next(kSecondWorker), 1);
  EXPECT_EQ(queue.lose(kSecondWorker), (Settlement{.failed = 1, .cancelled = {2}}));
  EXPECT_TRUE(queue.is_idle());
}

TEST(FunctionQueue, AFullQueueTakesNoMore) {
  FunctionQueue queue = queue_of(2, {.capacity = 2});
  EXPECT_FALSE(queue.has_room());
  EXPECT_EQ(base::testing::code_of([&] { queue.add(); }), ErrorCode::kResourceExhausted);
  queue.next(kFirstWorker);
  EXPECT_EQ(queue.add(), 3);
  queue.lose(kFirstWorker);
  EXPECT_EQ(queue.queued(), 3u) << "what was given out comes back, also into a full queue";
}

TEST(FunctionQueue, NumbersMustBePositive) {
  EXPECT_EQ(base::testing::code_of([] { FunctionQueue({.capacity = 0}); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(base::testing::code_of([] { FunctionQueue({.max_losses = 0}); }),
            ErrorCode::kInvalidArgument);
}

/// Everything that can happen, in every order up to a depth: whatever it is, a function that was
/// added waits, runs, or was settled once.
class EveryOrder {
 public:
  /// Returns how many orders it has tried.
  std::int64_t explore(int depth) {
    step(State{}, depth);
    return orders_;
  }

 private:
  static constexpr FunctionQueueOptions kOptions = {.capacity = 2, .max_losses = 2};

  struct State {
    FunctionQueue queue = FunctionQueue(kOptions);
    FunctionId added = 0;
    std::set<FunctionId> settled = {};
    std::map<std::string, std::set<FunctionId>> given = {};  // to each worker, ever
    int errors = 0;
    int taken = 0;
  };

  static void settle(State& state, const Settlement& settlement) {
    if (settlement.failed) ++state.errors;
    std::vector<FunctionId> all = settlement.cancelled;
    if (settlement.succeeded) all.push_back(*settlement.succeeded);
    if (settlement.failed) all.push_back(*settlement.failed);
    for (const FunctionId each : all) {
      ASSERT_GE(each, 1);
      ASSERT_LE(each, state.added);
      ASSERT_TRUE(state.settled.insert(each).second) << each << " is settled twice";
    }
    if (settlement.failed) {
      ASSERT_EQ(state.settled.size(), static_cast<std::size_t>(state.added))
          << "an error settles everything";
    }
  }

  void check(const State& state) {
    const std::size_t open = static_cast<std::size_t>(state.added) - state.settled.size();
    std::size_t wanted = 0;
    for (const Incarnation& worker : {kFirstWorker, kSecondWorker}) {
      std::size_t here = 0;
      for (FunctionId id = 1; id <= state.added; ++id) {
        if (!state.queue.is_wanted(worker, id)) continue;
        ++here;
        ASSERT_FALSE(state.settled.contains(id));
      }
      ASSERT_LE(here, 1u) << "a worker runs one function at a time";
      wanted += here;
    }
    ASSERT_EQ(open, state.queue.queued() + wanted) << "a function is lost, or given twice";
    ASSERT_EQ(state.errors - state.taken, state.queue.has_error() ? 1 : 0);
    ASSERT_TRUE(!state.queue.has_error() || state.queue.queued() == 0);
    ASSERT_TRUE(!state.queue.is_idle() || open == 0);
  }

  void step(const State& state, int depth) {
    ++orders_;
    check(state);
    if (depth == 0 || testing::Test::HasFatalFailure()) return;
    if (state.added < 4 && state.queue.has_room() && !state.queue.has_error()) {
      State next = state;
      next.added = next.queue.add();
      step(next, depth - 1);
    }
    if (state.queue.has_error()) {
      State next = state;
      next.queue.take_error();
      ++next.taken;
      step(next, depth - 1);
    }
    for (const Incarnation& worker : {kFirstWorker, kSecondWorker}) act(state, worker, depth - 1);
  }

  void act(const State& state, const Incarnation& worker, int depth) {
    {
      State next = state;
      if (const auto id = next.queue.next(worker)) {
        ASSERT_FALSE(next.settled.contains(*id)) << *id << " is given though it is settled";
        ASSERT_FALSE(next.queue.has_error());
        next.given[worker.task].insert(*id);
        step(next, depth);
      }
    }
    const auto given = state.given.find(worker.task);
    if (given == state.given.end()) return;
    for (const FunctionId id : given->second) {
      for (const FunctionOutcome outcome : {kSucceeded, kFailed}) {
        State next = state;
        settle(next, next.queue.finish(worker, id, outcome));
        step(next, depth);
      }
    }
    State next = state;
    settle(next, next.queue.lose(worker));
    step(next, depth);
  }

  std::int64_t orders_ = 0;
};

TEST(FunctionQueue, InEveryOrderOfMessagesNothingIsLostOrSettledTwice) {
  EXPECT_GT(EveryOrder().explore(8), 50'000);
}

}  // namespace
}  // namespace brigade::coordination
