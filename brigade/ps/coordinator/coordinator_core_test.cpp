#include "brigade/ps/coordinator/coordinator_core.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/parameter_service.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::kLong;
using concurrency::testing::result_of;
using concurrency::testing::start;
using concurrency::testing::still_waits;

constexpr std::chrono::seconds kTerm{8};
const cluster::Task kRunner0 = {.job = "worker", .index = 0};
const cluster::Task kRunner1 = {.job = "worker", .index = 1};

CoordinatorService::Time far_away() {
  return std::chrono::steady_clock::now() + kLong;
}

io::StateTree number_tree(std::int64_t number) {
  io::StateTree tree;
  tree["number"] = number;
  return tree;
}

FunctionData number_data(std::int64_t number) {
  return {.values = number_tree(number)};
}

std::int64_t number_of(const FunctionData& data) {
  return data.values.as_int64("number");
}

/// A worker that makes single calls.
class Runner {
 public:
  Runner(CoordinatorCore& core, cluster::Task task) : core_(core), task_(std::move(task)) {
    join(0);
  }
  void join(std::int64_t incarnation, const std::string& coordinator = "") {
    grant = core_.join({.task = task_, .incarnation = incarnation, .coordinator = coordinator},
                       far_away());
  }
  void join_again() { join(grant.incarnation, grant.coordinator); }
  std::optional<FunctionWork> take() { return core_.take(grant.token, {}, far_away()).work; }
  TakeReply take_of_phase(std::int64_t phase) {
    return core_.take(grant.token, {.phase = phase}, far_away());
  }
  void finish(const FunctionWork& work, std::int64_t number) {
    core_.finish(grant.token,
                 {.coordinator = work.coordinator, .id = work.id, .result = number_data(number)},
                 far_away());
  }
  void fail(const FunctionWork& work, ErrorCode code, const std::string& message) {
    core_.finish(grant.token,
                 {.coordinator = work.coordinator,
                  .id = work.id,
                  .error = FunctionError{.code = code, .message = message}},
                 far_away());
  }
  WorkerStatus renew(std::int64_t running = 0) {
    return core_.renew(grant.token, running, far_away());
  }

  WorkerGrant grant;

 private:
  CoordinatorCore& core_;
  cluster::Task task_;
};

class CoordinatorCoreTest : public ::testing::Test {
 protected:
  explicit CoordinatorCoreTest(coordination::FunctionQueueOptions queue = {})
      : core(
            CoordinatorCoreOptions{.workers = {kRunner0, kRunner1}, .lease = kTerm, .queue = queue},
            clock) {}

  RemoteValue schedule(const std::string& function) {
    return core.schedule({.function = function}, far_away());
  }

  base::ManualClock clock;
  CoordinatorCore core;
};

TEST_F(CoordinatorCoreTest, AWorkerGetsAFunctionAndItsResultIsTheValue) {
  Runner runner(core, kRunner0);
  EXPECT_EQ(runner.take(), std::nullopt);
  const RemoteValue value =
      core.schedule({.function = "double",
                     .arguments = {.values = number_tree(4), .tensors = {{"ones", at::ones({2})}}},
                     .per_worker = {{.id = 3, .function = "batches", .arguments = number_tree(5)}}},
                    far_away());
  EXPECT_EQ(value.state(), RemoteValueState::kPending);
  const auto work = runner.take();
  ASSERT_TRUE(work);
  EXPECT_EQ(work->function, "double");
  EXPECT_EQ(number_of(work->arguments), 4);
  EXPECT_EQ(work->arguments.tensor("ones").numel(), 2);
  ASSERT_EQ(work->per_worker.size(), 1u);
  EXPECT_EQ(work->per_worker[0].function, "batches");
  EXPECT_FALSE(core.is_idle());
  runner.finish(*work, 8);
  EXPECT_EQ(value.state(), RemoteValueState::kAvailable);
  EXPECT_EQ(number_of(value.get()), 8);
  core.join_functions(far_away());
}

TEST_F(CoordinatorCoreTest, ALostWorkersFunctionIsRunByAnother) {
  Runner lost(core, kRunner0), other(core, kRunner1);
  const RemoteValue value = schedule("step");
  const auto work = lost.take();
  EXPECT_EQ(other.take(), std::nullopt);
  clock.advance(kTerm / 2);
  other.renew();
  clock.advance(kTerm / 2);
  core.tick();
  EXPECT_EQ(core.num_present(), 1);
  const auto again = other.take();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->id, work->id);

  EXPECT_THROW(lost.finish(*work, 1), NotMemberError);
  lost.join_again();  // it was only slow
  EXPECT_FALSE(lost.renew(work->id).is_wanted);
  lost.finish(*work, 1);
  EXPECT_EQ(value.state(), RemoteValueState::kPending) << "it is the other's to give";
  other.finish(*again, 2);
  EXPECT_EQ(number_of(value.get()), 2);
}

TEST_F(CoordinatorCoreTest, AWorkerThatRenewsKeepsALongFunction) {
  Runner runner(core, kRunner0);
  schedule("step");
  const auto work = runner.take();
  for (int i = 0; i < 5; ++i) {
    clock.advance(kTerm / 2);
    EXPECT_TRUE(runner.renew(work->id).is_wanted);
    core.tick();
  }
  EXPECT_EQ(core.num_present(), 1);
}

TEST_F(CoordinatorCoreTest, AReplacedWorkerIsFencedAndItsFunctionRunAgain) {
  Runner earlier(core, kRunner0);
  const RemoteValue value = schedule("step");
  const auto work = earlier.take();
  Runner later(core, kRunner0);
  EXPECT_EQ(later.grant.incarnation, earlier.grant.incarnation + 1);
  EXPECT_THROW(earlier.finish(*work, 1), NotMemberError);
  EXPECT_THROW(earlier.join_again(), ReplacedError);
  const auto again = later.take();
  ASSERT_TRUE(again);
  later.finish(*again, 2);
  EXPECT_EQ(number_of(value.get()), 2);
}

TEST_F(CoordinatorCoreTest, AWorkerThatLeavesGivesItsFunctionBack) {
  Runner leaver(core, kRunner0), other(core, kRunner1);
  schedule("step");
  leaver.take();
  core.leave(leaver.grant.token, far_away());
  EXPECT_TRUE(other.take());
  EXPECT_EQ(core.num_present(), 1);
}

TEST_F(CoordinatorCoreTest, TheFirstErrorIsThrownOnceAndCancelsTheOthers) {
  Runner one(core, kRunner0), two(core, kRunner1);
  const RemoteValue running = schedule("slow");
  const RemoteValue failing = schedule("bad");
  const RemoteValue queued = schedule("later");
  const auto slow = one.take(), bad = two.take();
  two.fail(*bad, ErrorCode::kOutOfRange, "too far");

  for (const RemoteValue& each : {running, queued}) {
    EXPECT_EQ(each.state(), RemoteValueState::kAborted);
    EXPECT_EQ(code_of([&] { each.get(); }), ErrorCode::kCancelled);
  }
  EXPECT_EQ(code_of([&] { failing.get(); }), ErrorCode::kOutOfRange);
  EXPECT_EQ(two.take(), std::nullopt);
  EXPECT_FALSE(one.renew(slow->id).is_wanted);
  one.fail(*slow, ErrorCode::kInternal, "of a function that was cancelled");

  try {
    core.join_functions(far_away());
    ADD_FAILURE() << "it did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
    for (const char* words : {"bad", "/job:worker/task:1", "too far"})
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
  core.join_functions(far_away());  // once
  const RemoteValue value = schedule("again");
  const auto again = one.take();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->function, "again");
  one.finish(*again, 1);
  EXPECT_EQ(number_of(value.get()), 1);
}

TEST_F(CoordinatorCoreTest, ScheduleThrowsAnErrorInsteadOfScheduling) {
  Runner runner(core, kRunner0);
  schedule("bad");
  runner.fail(*runner.take(), ErrorCode::kNotFound, "nothing there");
  EXPECT_EQ(code_of([&] { schedule("next"); }), ErrorCode::kNotFound);
  EXPECT_TRUE(core.is_idle()) << "the function was not scheduled";
  schedule("next");
  EXPECT_FALSE(core.is_idle());
}

TEST_F(CoordinatorCoreTest, JoinWaitsForFunctionsThatWereCancelledWhileTheyRan) {
  Runner one(core, kRunner0), two(core, kRunner1);
  schedule("slow");
  schedule("bad");
  const auto slow = one.take(), bad = two.take();
  two.fail(*bad, ErrorCode::kOutOfRange, "too far");
  auto joined = start([&] {
    try {
      core.join_functions(far_away());
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  });
  EXPECT_TRUE(still_waits(joined));
  one.finish(*slow, 1);
  EXPECT_EQ(result_of(joined), ErrorCode::kOutOfRange);
}

TEST_F(CoordinatorCoreTest, ALifeAtAnotherCoordinatorSaysNothingHere) {
  Runner runner(core, kRunner0);
  runner.join(7, "another coordinator");
  EXPECT_EQ(runner.grant.incarnation, 2) << "a new life here";
  schedule("step");
  auto work = runner.take();
  ASSERT_TRUE(work);
  const FunctionWork foreign{.coordinator = "another coordinator", .id = work->id};
  runner.finish(foreign, 1);
  EXPECT_TRUE(runner.renew(work->id).is_wanted) << "a report to another coordinator counts not";
}

TEST_F(CoordinatorCoreTest, AStrangerIsNoWorker) {
  EXPECT_EQ(code_of([&] { core.join({.task = {.job = "worker", .index = 2}}, far_away()); }),
            ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { core.join({.task = {.job = "chief", .index = 0}}, far_away()); }),
            ErrorCode::kNotFound);
  schedule("step");
  EXPECT_THROW(core.take("a stranger's", {}, far_away()), NotMemberError);
  EXPECT_THROW(core.finish("a stranger's", {.id = 1}, far_away()), NotMemberError);
  EXPECT_THROW(core.renew("a stranger's", 1, far_away()), NotMemberError);
  EXPECT_THROW(core.leave("a stranger's", far_away()), NotMemberError);
}

TEST_F(CoordinatorCoreTest, AWorkerWaitsForAFunction) {
  Runner runner(core, kRunner0);
  auto taken = start(
      [&] { return core.take(runner.grant.token, {.wait = kLong}, far_away()).work.has_value(); });
  EXPECT_TRUE(still_waits(taken));
  schedule("step");
  EXPECT_TRUE(result_of(taken));
}

TEST_F(CoordinatorCoreTest, ACallWhoseCallerIsGoneTakesNothingAndKeepsNoLease) {
  Runner runner(core, kRunner0);
  std::atomic<bool> is_gone = false;
  auto taken = start([&] {
    return code_of([&] {
      core.take(runner.grant.token,
                {.wait = kLong,
                 .check =
                     [&] {
                       if (is_gone) throw Error(ErrorCode::kCancelled, "The caller is gone.");
                     }},
                far_away());
    });
  });
  EXPECT_TRUE(still_waits(taken));
  is_gone = true;
  EXPECT_EQ(result_of(taken), ErrorCode::kCancelled);

  auto waiting = start(
      [&] { return code_of([&] { core.take(runner.grant.token, {.wait = kLong}, far_away()); }); });
  EXPECT_TRUE(still_waits(waiting));
  clock.advance(kTerm);
  core.tick();
  EXPECT_EQ(result_of(waiting), ErrorCode::kUnavailable);
  EXPECT_EQ(core.num_present(), 0);
}

TEST_F(CoordinatorCoreTest, TheEndIsReportedToWorkersAndAbortsValues) {
  Runner runner(core, kRunner0);
  const RemoteValue running = schedule("slow"), queued = schedule("later");
  const auto work = runner.take();
  auto waiting = start([&] { return code_of([&] { running.get(); }); });
  core.end();
  EXPECT_EQ(result_of(waiting), ErrorCode::kCancelled);
  EXPECT_EQ(queued.state(), RemoteValueState::kAborted);
  EXPECT_TRUE(runner.renew(work->id).is_done);
  EXPECT_TRUE(core.take(runner.grant.token, {}, far_away()).is_done);
  EXPECT_EQ(code_of([&] { schedule("more"); }), ErrorCode::kCancelled);
}

TEST_F(CoordinatorCoreTest, CancelEndsEveryWait) {
  schedule("step");
  auto joined = start([&] { return code_of([&] { core.join_functions(far_away()); }); });
  EXPECT_TRUE(still_waits(joined));
  core.cancel("the test says so");
  EXPECT_EQ(result_of(joined), ErrorCode::kCancelled);
  EXPECT_EQ(code_of([&] { schedule("more"); }), ErrorCode::kCancelled);
}

TEST_F(CoordinatorCoreTest, AWaitThatTakesTooLongIsAnError) {
  const RemoteValue value = schedule("step");
  EXPECT_EQ(code_of([&] { core.join_functions(std::chrono::steady_clock::now()); }),
            ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(code_of([&] { value.get(std::chrono::milliseconds(1)); }),
            ErrorCode::kDeadlineExceeded);
}

TEST_F(CoordinatorCoreTest, AValueOutlivesItsCoordinator) {
  std::optional<RemoteValue> value;
  {
    CoordinatorCore other({.workers = {kRunner0}}, clock);
    value = other.schedule({.function = "step"}, far_away());
  }
  EXPECT_EQ(value->state(), RemoteValueState::kAborted);
  EXPECT_EQ(code_of([&] { value->get(); }), ErrorCode::kCancelled);
}

TEST_F(CoordinatorCoreTest, WorkersTakeTheFunctionsOfTheirPhaseAndLearnHowItHasEnded) {
  Runner early(core, kRunner0), late(core, kRunner1);
  EXPECT_EQ(core.begin_phase(), 1);
  schedule("step");
  EXPECT_EQ(early.take_of_phase(2).work, std::nullopt) << "it is ahead";
  EXPECT_EQ(early.take(), std::nullopt);
  const TakeReply first = early.take_of_phase(1);
  ASSERT_TRUE(first.work);
  early.finish(*first.work, 1);
  core.join_functions(far_away());
  core.end_phase("one");
  EXPECT_EQ(core.begin_phase(), 2);
  schedule("step");
  const TakeReply ended = late.take_of_phase(1);
  EXPECT_FALSE(ended.work);
  ASSERT_TRUE(ended.phase_end);
  EXPECT_FALSE(ended.phase_end->error);
  EXPECT_EQ(ended.phase_end->outcome.as_string(), "one");
  EXPECT_TRUE(late.take_of_phase(2).work);
}

TEST_F(CoordinatorCoreTest, APhaseThatWasNotEndedHasFailed) {
  Runner runner(core, kRunner0);
  EXPECT_EQ(code_of([&] { core.end_phase({}); }), ErrorCode::kFailedPrecondition);
  core.begin_phase();
  const RemoteValue value = schedule("step");
  EXPECT_EQ(core.begin_phase(), 2);
  EXPECT_EQ(code_of([&] { value.get(); }), ErrorCode::kCancelled);
  const TakeReply first = runner.take_of_phase(1);
  ASSERT_TRUE(first.phase_end && first.phase_end->error);
  EXPECT_EQ(first.phase_end->error->code, ErrorCode::kAborted);
  core.end_phase("two");
  EXPECT_EQ(code_of([&] { core.end_phase("again"); }), ErrorCode::kFailedPrecondition);
  core.end();
  const TakeReply second = runner.take_of_phase(2);
  ASSERT_TRUE(second.phase_end) << "the outcome comes before the end";
  EXPECT_EQ(second.phase_end->outcome.as_string(), "two");
  EXPECT_TRUE(runner.take_of_phase(3).is_done);
}

TEST_F(CoordinatorCoreTest, WorkersAreExpectedThatMayCome) {
  const auto is_expected = [&](std::chrono::seconds latecomers) {
    return core.expects_workers(clock.now() + latecomers);
  };
  EXPECT_TRUE(is_expected(kTerm)) << "none has come yet";
  EXPECT_FALSE(is_expected(std::chrono::seconds(0)));
  Runner first(core, kRunner0), second(core, kRunner1);
  EXPECT_TRUE(is_expected(std::chrono::seconds(0)));
  core.leave(first.grant.token, far_away());
  EXPECT_TRUE(is_expected(std::chrono::seconds(0))) << "the other one";
  clock.advance(kTerm);
  core.tick();
  EXPECT_EQ(core.num_present(), 0);
  EXPECT_TRUE(is_expected(std::chrono::seconds(0))) << "it was lost";
  clock.advance(3 * kTerm);
  EXPECT_FALSE(is_expected(kTerm)) << "it does not come again, and each was there";
  Runner again(core, kRunner1);
  core.leave(again.grant.token, far_away());
  EXPECT_FALSE(is_expected(kTerm));
}

TEST_F(CoordinatorCoreTest, AFunctionWaitsForItsInputsAndGetsThem) {
  Runner runner(core, kRunner0), other(core, kRunner1);
  const RemoteValue first = schedule("first");
  const RemoteValue joined = core.schedule({.function = "join",
                                            .arguments = number_data(1),
                                            .inputs = {{"left", first}, {"again", first}}},
                                           far_away());
  const RemoteValue third =
      core.schedule({.function = "third", .inputs = {{"joined", joined}}}, far_away());
  const auto work = runner.take();
  ASSERT_TRUE(work);
  EXPECT_EQ(work->function, "first");
  EXPECT_EQ(other.take(), std::nullopt) << "its input is pending";
  core.leave(runner.grant.token, far_away());
  const auto again = other.take();  // the first worker is lost, and with it nothing
  ASSERT_TRUE(again);
  core.finish(other.grant.token,
              {.coordinator = again->coordinator,
               .id = again->id,
               .result = {.values = number_tree(7), .tensors = {{"x", at::ones({2})}}}},
              far_away());
  EXPECT_FALSE(core.is_idle());
  const auto second = other.take();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->function, "join");
  EXPECT_EQ(number_of(second->arguments), 1);
  EXPECT_EQ(second->arguments.values.as_int64("left", "number"), 7);
  EXPECT_EQ(second->arguments.values.as_int64("again", "number"), 7);
  EXPECT_EQ(second->arguments.tensor("left/x").numel(), 2);
  other.finish(*second, 8);
  const auto last = other.take();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->arguments.values.as_int64("joined", "number"), 8);
  other.finish(*last, 9);
  core.join_functions(far_away());
  EXPECT_EQ(number_of(third.get()), 9);
  // Of a value that is there nothing is waited for.
  core.schedule({.function = "late", .inputs = {{"x", third}}}, far_away());
  const auto late = other.take();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->arguments.values.as_int64("x", "number"), 9);
}

TEST_F(CoordinatorCoreTest, AFunctionWhoseInputFailsIsCancelled) {
  Runner runner(core, kRunner0);
  const RemoteValue bad = schedule("bad");
  const RemoteValue value =
      core.schedule({.function = "waits", .inputs = {{"bad", bad}}}, far_away());
  runner.fail(*runner.take(), ErrorCode::kOutOfRange, "no");
  EXPECT_EQ(code_of([&] { value.get(); }), ErrorCode::kCancelled);
  EXPECT_EQ(code_of([&] { core.join_functions(far_away()); }), ErrorCode::kOutOfRange);
  core.join_functions(far_away());
  const auto schedule_with = [&](const RemoteValue& input) {
    return code_of([&] {
      core.schedule({.function = "waits", .inputs = {{"bad", input}}}, far_away());
    });
  };
  EXPECT_EQ(schedule_with(bad), ErrorCode::kOutOfRange);
  EXPECT_TRUE(core.is_idle());
  const RemoteValue pending = schedule("first");
  const RemoteValue held =
      core.schedule({.function = "waits", .inputs = {{"first", pending}}}, far_away());
  core.cancel("the test says so");
  EXPECT_EQ(code_of([&] { held.get(); }), ErrorCode::kCancelled);
}

TEST_F(CoordinatorCoreTest, InputsThatCannotBeAreRefused) {
  CoordinatorCore stranger({.workers = {kRunner0}}, clock);
  const RemoteValue own = schedule("first");
  const RemoteValue strange = stranger.schedule({.function = "first"}, far_away());
  const auto refused = [&](std::vector<RemoteInput> inputs) {
    return code_of([&] {
             core.schedule(
                 {.function = "join", .arguments = number_data(1), .inputs = std::move(inputs)},
                 far_away());
           }) == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({{"x", strange}}));
  EXPECT_TRUE(refused({{"", own}}));
  EXPECT_TRUE(refused({{"x", own}, {"x", own}}));
  EXPECT_TRUE(refused({{"number", own}})) << "a value has this name";
}

TEST(CoordinatorCore, AFunctionWhoseInputsAreTooLargeFails) {
  base::ManualClock clock;
  CoordinatorCore core({.workers = {kRunner0},
                        .check_complete =
                            [](const ScheduledFunction& function) {
                              check_argument(
                                  number_of({.values = function.arguments.values.at("x")}) < 5,
                                  "Too large.");
                            }},
                       clock);
  Runner runner(core, kRunner0);
  const RemoteValue input = core.schedule({.function = "first"}, far_away());
  const RemoteValue value =
      core.schedule({.function = "join", .inputs = {{"x", input}}}, far_away());
  const RemoteValue other = core.schedule({.function = "other"}, far_away());
  runner.finish(*runner.take(), 5);
  EXPECT_EQ(number_of(input.get()), 5);
  EXPECT_EQ(code_of([&] { value.get(); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { other.get(); }), ErrorCode::kCancelled);
  EXPECT_EQ(code_of([&] { core.join_functions(far_away()); }), ErrorCode::kInvalidArgument);
  core.schedule({.function = "other"}, far_away());
  EXPECT_TRUE(runner.take());
}

TEST_F(CoordinatorCoreTest, DroppedFunctionsLeaveNoError) {
  Runner runner(core, kRunner0);
  schedule("bad");
  const auto bad = runner.take();
  runner.fail(*bad, ErrorCode::kOutOfRange, "no");
  core.drop_functions("the test says so");
  core.join_functions(far_away());
  const RemoteValue dropped = schedule("step");
  core.drop_functions("the test says so");
  EXPECT_EQ(code_of([&] { dropped.get(); }), ErrorCode::kCancelled);
  const RemoteValue later = schedule("step");
  const auto work = runner.take();
  ASSERT_TRUE(work);
  runner.finish(*work, 5);
  EXPECT_EQ(number_of(later.get()), 5);
}

TEST_F(CoordinatorCoreTest, AnyOfSeveralValuesEndsAWait) {
  Runner runner(core, kRunner0), other(core, kRunner1);
  const std::vector<RemoteValue> values = {schedule("slow"), schedule("quick")};
  const auto slow = runner.take();
  const auto quick = other.take();
  EXPECT_EQ(core.wait_any({}, far_away()), std::nullopt);
  EXPECT_EQ(core.wait_any(values, std::chrono::steady_clock::now()), std::nullopt);
  auto waiting = start([&] { return core.wait_any(values, far_away()); });
  EXPECT_TRUE(still_waits(waiting));
  other.finish(*quick, 1);
  EXPECT_EQ(result_of(waiting), std::optional<std::size_t>(1));
  runner.fail(*slow, ErrorCode::kOutOfRange, "no");
  EXPECT_EQ(core.wait_any(values, far_away()), std::optional<std::size_t>(0))
      << "a failed one has ended, too";
}

class SmallCoordinatorTest : public CoordinatorCoreTest {
 protected:
  SmallCoordinatorTest() : CoordinatorCoreTest({.capacity = 1, .max_losses = 2}) {}
};

TEST_F(SmallCoordinatorTest, AFullQueueMakesScheduleWait) {
  Runner runner(core, kRunner0);
  schedule("first");
  EXPECT_EQ(
      code_of([&] { core.schedule({.function = "second"}, std::chrono::steady_clock::now()); }),
      ErrorCode::kDeadlineExceeded);
  auto scheduled = start([&] { return schedule("second").state(); });
  EXPECT_TRUE(still_waits(scheduled));
  EXPECT_EQ(runner.take()->function, "first");
  EXPECT_EQ(result_of(scheduled), RemoteValueState::kPending);
}

TEST_F(SmallCoordinatorTest, AnErrorEndsTheWaitForRoomInTheQueue) {
  Runner runner(core, kRunner0);
  schedule("bad");
  const auto bad = runner.take();
  schedule("waits");
  auto scheduled = start([&] { return code_of([&] { schedule("third"); }); });
  EXPECT_TRUE(still_waits(scheduled));
  runner.fail(*bad, ErrorCode::kDataLoss, "gone");
  EXPECT_EQ(result_of(scheduled), ErrorCode::kDataLoss);
}

TEST_F(SmallCoordinatorTest, AFunctionThatEndsItsWorkersIsAnError) {
  const RemoteValue value = schedule("crash");
  for (int life = 0; life < 2; ++life) {
    Runner runner(core, kRunner0);
    EXPECT_TRUE(runner.take());
    core.leave(runner.grant.token, far_away());
  }
  EXPECT_EQ(code_of([&] { value.get(); }), ErrorCode::kAborted);
  EXPECT_EQ(code_of([&] { core.join_functions(far_away()); }), ErrorCode::kAborted);
}

}  // namespace
}  // namespace brigade::ps
