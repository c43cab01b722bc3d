#include "brigade/ps/coordinator/coordinated_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/testing/local_coordinator.h"
#include "brigade/ps/testing/worker_thread.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using concurrency::testing::kLong;
using testing::coordinated_config;
using testing::CoordinatorCall;
using testing::LocalCoordinator;
using testing::WorkerThread;

const cluster::Task kFunctionRunner0 = {.job = "worker", .index = 0};
const cluster::Task kFunctionRunner1 = {.job = "worker", .index = 1};

/// What all workers of a test share, as processes could not.
struct Observed {
  std::atomic<int> setups = 0;
  std::atomic<int> failing_setups = 0;  // so many fail
  std::atomic<int> datasets = 0;
  std::atomic<int> runs = 0;
  std::promise<void> is_running;  // set by the first run of "wait"
  std::promise<void> attends[2];  // set by the runs of "attend", which end with the tokens
  concurrency::CancelToken may_end[2];
};

/// The state of a worker.
struct Bench {
  const WorkerContext& worker;
  Observed& observed;
};

FunctionData with_number(std::int64_t number) {
  FunctionData data;
  data.values["number"] = number;
  return data;
}

FunctionRegistry<Bench> bench_functions(Observed& observed) {
  FunctionRegistry<Bench> functions([&observed](const WorkerContext& worker) {
    ++observed.setups;
    if (observed.failing_setups-- > 0) throw Error(ErrorCode::kUnavailable, "No model yet.");
    return std::make_unique<Bench>(Bench{.worker = worker, .observed = observed});
  });
  functions.add("square", [](Bench& bench, const FunctionCall& call) {
    ++bench.observed.runs;
    const std::int64_t number = call.arguments.values.as_int64("number");
    return with_number(number * number);
  });
  functions.add("index",
                [](Bench& bench, const FunctionCall&) { return with_number(bench.worker.index); });
  functions.add("refuse", [](Bench&, const FunctionCall&) -> FunctionData {
    throw Error(ErrorCode::kOutOfRange, "The number is too large.");
  });
  functions.add("break", [](Bench&, const FunctionCall&) -> FunctionData {
    throw std::runtime_error("broken");
  });
  functions.add("undefined", [](Bench&, const FunctionCall&) {
    return FunctionData{.tensors = {{"nothing", at::Tensor()}}};
  });
  // The first run lasts until it is cancelled.
  functions.add("wait", [](Bench& bench, const FunctionCall& call) {
    if (bench.observed.runs++ == 0) {
      bench.observed.is_running.set_value();
      concurrency::interruptible_wait(kLong, call.cancel);
    }
    return with_number(bench.worker.index);
  });
  functions.add("attend", [](Bench& bench, const FunctionCall& call) {
    const int run = bench.observed.runs++;
    if (run > 1) throw Error(ErrorCode::kInternal, "It runs more often than the test expects.");
    bench.observed.attends[run].set_value();
    while (!bench.observed.may_end[run].is_cancelled() && !call.cancel.is_cancelled())
      concurrency::interruptible_wait(std::chrono::milliseconds(1), call.cancel);
    call.cancel.throw_if_cancelled("a function");
    return with_number(run);
  });
  functions.add("next", [](Bench&, const FunctionCall& call) {
    return with_number(call.per_worker<std::int64_t>()++);
  });
  functions.add("mistyped", [](Bench&, const FunctionCall& call) {
    return with_number(call.per_worker<int>());
  });
  functions.add_dataset("counter", [](Bench& bench, const FunctionCall& call) {
    ++bench.observed.datasets;
    return call.arguments.values.as_int64("first");
  });
  return functions;
}

class CoordinatedWorkerTest : public ::testing::Test {
 protected:
  std::unique_ptr<WorkerThread> start(const cluster::Task& task) {
    const concurrency::CancelToken cancel;
    return std::make_unique<WorkerThread>(
        std::make_unique<CoordinatedWorker>(coordinated_config(task), functions,
                                            coordinator.connect(),
                                            CoordinatedWorkerOptions{.cancel = cancel}),
        cancel);
  }
  RemoteValue schedule(const std::string& function, FunctionData arguments = {},
                       std::vector<PerWorkerCreation> per_worker = {}) {
    return coordinator.core()->schedule({.function = function,
                                         .arguments = std::move(arguments),
                                         .per_worker = std::move(per_worker)},
                                        std::chrono::steady_clock::now() + kLong);
  }
  void join_all() { coordinator.core()->join_functions(std::chrono::steady_clock::now() + kLong); }
  static std::int64_t number_in(const RemoteValue& value) {
    return value.get(kLong).values.as_int64("number");
  }
  static PerWorkerCreation counter_from(std::int64_t first) {
    io::StateTree arguments;
    arguments["first"] = first;
    return {.id = 1, .function = "counter", .arguments = arguments};
  }
  static ErrorCode code_in(const std::exception_ptr& error) {
    return code_of([&] {
      if (error) std::rethrow_exception(error);
    });
  }

  Observed observed;
  const FunctionRegistry<Bench> functions = bench_functions(observed);
  // Renewals every 0.2 s. A lease that ends on a busy machine costs no function, as nobody calls
  // `tick`: the worker joins again.
  LocalCoordinator coordinator{
      {.workers = {kFunctionRunner0, kFunctionRunner1}, .lease = std::chrono::milliseconds(600)}};
};

TEST_F(CoordinatedWorkerTest, RunsWhatIsScheduledAndEndsWithTheCoordinator) {
  const auto worker = start(kFunctionRunner0);
  std::vector<RemoteValue> values;
  for (int i = 0; i < 10; ++i) values.push_back(schedule("square", with_number(i)));
  join_all();
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(number_in(values[static_cast<std::size_t>(i)]), i * i) << i;
  EXPECT_EQ(observed.runs, 10);
  EXPECT_EQ(observed.setups, 1);
  coordinator.core()->end();
  EXPECT_EQ(worker->end(), nullptr);
  EXPECT_EQ(coordinator.core()->num_present(), 0) << "it has left";
}

TEST_F(CoordinatedWorkerTest, NothingRunsWithoutAWorker) {
  const RemoteValue value = schedule("square", with_number(3));
  EXPECT_EQ(code_of([&] { value.get(concurrency::testing::kShort); }),
            ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(observed.setups, 0) << "the coordinator's process runs no function";
  EXPECT_EQ(observed.runs, 0);
  const auto worker = start(kFunctionRunner1);
  EXPECT_EQ(number_in(value), 9);
}

TEST_F(CoordinatedWorkerTest, AWorkerMakesItsValuesOnce) {
  const auto worker = start(kFunctionRunner0);
  for (const std::int64_t expected : {5, 6, 7})
    EXPECT_EQ(number_in(schedule("next", {}, {counter_from(5)})), expected);
  EXPECT_EQ(observed.datasets, 1);
}

TEST_F(CoordinatedWorkerTest, AnErrorIsReportedAndTheWorkerContinues) {
  const auto worker = start(kFunctionRunner0);
  const std::vector<std::pair<std::string, ErrorCode>> cases = {
      {"refuse", ErrorCode::kOutOfRange},
      {"break", ErrorCode::kAborted},
      {"undefined", ErrorCode::kInvalidArgument},
      {"next", ErrorCode::kInvalidArgument},  // without a per-worker value
      {"unknown", ErrorCode::kNotFound}};
  for (const auto& [function, code] : cases) {
    const RemoteValue value = schedule(function);
    EXPECT_EQ(code_of([&] { value.get(kLong); }), code) << function;
    EXPECT_EQ(code_of([&] { join_all(); }), code) << function;
    EXPECT_EQ(number_in(schedule("square", with_number(2))), 4) << function;
  }
  schedule("mistyped", {}, {counter_from(0)});
  EXPECT_EQ(code_of([&] { join_all(); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(observed.setups, 1);
}

TEST_F(CoordinatedWorkerTest, ASetupThatFailsIsTheFunctionsErrorAndIsMadeAgain) {
  observed.failing_setups = 1;
  const auto worker = start(kFunctionRunner0);
  schedule("square", with_number(2));
  EXPECT_EQ(code_of([&] { join_all(); }), ErrorCode::kUnavailable);
  EXPECT_EQ(number_in(schedule("square", with_number(2))), 4);
  EXPECT_EQ(observed.setups, 2);
}

TEST_F(CoordinatedWorkerTest, LostRepliesRunNoFunctionTwice) {
  for (const CoordinatorCall call :
       {CoordinatorCall::kJoin, CoordinatorCall::kTake, CoordinatorCall::kFinish})
    coordinator.lose_replies(call);
  const RemoteValue first = schedule("square", with_number(2));  // is in the reply that is lost
  const auto worker = start(kFunctionRunner0);
  EXPECT_EQ(number_in(first), 4);
  EXPECT_EQ(number_in(schedule("square", with_number(3))), 9);
  join_all();
  EXPECT_EQ(observed.runs, 2);
}

TEST_F(CoordinatedWorkerTest, AReplacedWorkerEndsAndItsSuccessorRunsItsFunction) {
  const auto earlier = start(kFunctionRunner0);
  const RemoteValue value = schedule("wait");
  ASSERT_EQ(observed.is_running.get_future().wait_for(kLong), std::future_status::ready);
  const auto later = start(kFunctionRunner0);
  EXPECT_EQ(number_in(value), 0);
  EXPECT_EQ(observed.runs, 2);
  EXPECT_THROW(
      {
        const std::exception_ptr error = earlier->end();
        if (error) std::rethrow_exception(error);
      },
      ReplacedError);
}

TEST_F(CoordinatedWorkerTest, AFunctionThatNobodyWantsIsCancelled) {
  const auto one = start(kFunctionRunner0);
  const auto other = start(kFunctionRunner1);
  const RemoteValue cancelled = schedule("wait");
  ASSERT_EQ(observed.is_running.get_future().wait_for(kLong), std::future_status::ready);
  schedule("refuse");
  EXPECT_EQ(code_of([&] { join_all(); }), ErrorCode::kOutOfRange);
  EXPECT_EQ(code_of([&] { cancelled.get(kLong); }), ErrorCode::kCancelled);
  // Both are free again.
  std::vector<RemoteValue> values;
  for (int i = 0; i < 4; ++i) values.push_back(schedule("square", with_number(i)));
  join_all();
  EXPECT_EQ(number_in(values[3]), 9);
}

TEST_F(CoordinatedWorkerTest, AWorkerEndsWhoseCoordinatorHasEndedWhileItRan) {
  const auto worker = start(kFunctionRunner0);
  schedule("wait");
  ASSERT_EQ(observed.is_running.get_future().wait_for(kLong), std::future_status::ready);
  coordinator.core()->end();
  EXPECT_EQ(worker->end(), nullptr);
  EXPECT_EQ(coordinator.calls(CoordinatorCall::kFinish), 0);
}

TEST_F(CoordinatedWorkerTest, TheEndOfACoordinatorWithALongLeaseIsNoticedSoon) {
  LocalCoordinator patient({.workers = {kFunctionRunner0}, .lease = std::chrono::hours(1)});
  const concurrency::CancelToken cancel;
  WorkerThread worker(std::make_unique<CoordinatedWorker>(
                          coordinated_config(kFunctionRunner0), functions, patient.connect(),
                          CoordinatedWorkerOptions{.cancel = cancel}),
                      cancel);
  patient.core()->schedule({.function = "wait"}, std::chrono::steady_clock::now() + kLong);
  ASSERT_EQ(observed.is_running.get_future().wait_for(kLong), std::future_status::ready);
  patient.core()->end();
  EXPECT_EQ(worker.end(), nullptr);
  EXPECT_EQ(patient.calls(CoordinatorCall::kFinish), 0) << "the function was not cancelled";
}

TEST_F(CoordinatedWorkerTest, AnAnswerAboutAnEarlierFunctionDoesNotCancelTheNextOfItsNumber) {
  const auto worker = start(kFunctionRunner0);
  schedule("attend");
  ASSERT_EQ(observed.attends[0].get_future().wait_for(kLong), std::future_status::ready);
  coordinator.stop();
  coordinator.hold_replies(CoordinatorCall::kRenew);
  const int before = coordinator.calls(CoordinatorCall::kRenew);
  const auto wait_for_renewals = [&](int count) {
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (coordinator.calls(CoordinatorCall::kRenew) < before + count) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  coordinator.start();
  wait_for_renewals(1);  // the new coordinator does not want the function of the earlier one
  const RemoteValue value = schedule("attend");  // has the same number
  observed.may_end[0].cancel();
  ASSERT_EQ(observed.attends[1].get_future().wait_for(kLong), std::future_status::ready);
  coordinator.release_replies();
  wait_for_renewals(2);  // so the worker has read the first answer
  observed.may_end[1].cancel();
  EXPECT_EQ(number_in(value), 1);
}

TEST_F(CoordinatedWorkerTest, AWorkerThatIsCancelledGivesItsFunctionBack) {
  const auto ending = start(kFunctionRunner0);
  const RemoteValue value = schedule("wait");
  ASSERT_EQ(observed.is_running.get_future().wait_for(kLong), std::future_status::ready);
  ending->cancel();
  EXPECT_EQ(code_in(ending->end()), ErrorCode::kCancelled);
  coordinator.core()->tick();  // on a busy machine its lease may have ended before it has left
  const auto other = start(kFunctionRunner1);
  EXPECT_EQ(number_in(value), 1) << "the other worker's";
}

TEST_F(CoordinatedWorkerTest, AWorkerServesACoordinatorThatWasStartedAgain) {
  const auto worker = start(kFunctionRunner0);
  EXPECT_EQ(number_in(schedule("next", {}, {counter_from(5)})), 5);
  coordinator.stop();
  coordinator.start();
  EXPECT_EQ(number_in(schedule("next", {}, {counter_from(7)})), 7)
      << "values belong to a coordinator's life";
  EXPECT_EQ(observed.datasets, 2);
  EXPECT_EQ(observed.setups, 1) << "the model stays";
}

TEST_F(CoordinatedWorkerTest, PhasesAreServedOneAfterAnother) {
  const std::shared_ptr<CoordinatorCore> core = coordinator.core();
  core->begin_phase();
  auto served = std::async(std::launch::async, [this] {
    CoordinatedWorker worker(coordinated_config(kFunctionRunner0), functions,
                             coordinator.connect());
    std::vector<std::string> ends;
    for (std::int64_t phase = 1; phase <= 4; ++phase) {
      const auto end = worker.serve_phase(phase);
      ends.push_back(!end ? "over" : end->error ? "failed" : end->outcome.as_string());
    }
    return ends;
  });
  EXPECT_EQ(number_in(schedule("square", with_number(3))), 9);
  core->end_phase("one");
  core->begin_phase();
  EXPECT_EQ(number_in(schedule("index")), 0);
  core->begin_phase();
  core->end();
  EXPECT_EQ(served.get(), (std::vector<std::string>{"one", "failed", "over", "over"}));
  EXPECT_EQ(core->num_present(), 0) << "it has left";
  EXPECT_EQ(observed.setups, 1);
}

TEST_F(CoordinatedWorkerTest, AWorkerThatIsAheadOfACoordinatorThatWasStartedAgainEnds) {
  coordinator.core()->begin_phase();
  coordinator.core()->end_phase("one");
  CoordinatedWorker worker(coordinated_config(kFunctionRunner0), functions, coordinator.connect());
  const auto first = worker.serve_phase(1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->outcome.as_string(), "one");
  coordinator.stop();
  coordinator.start();
  EXPECT_EQ(code_of([&] { worker.serve_phase(2); }), ErrorCode::kAborted);
}

TEST_F(CoordinatedWorkerTest, ACoordinatorThatHasSaidThatItEndsIsNotWaitedForLater) {
  coordinator.core()->begin_phase();
  coordinator.core()->end_phase("one");
  CoordinatedWorker worker(coordinated_config(kFunctionRunner0), functions, coordinator.connect());
  ASSERT_TRUE(worker.serve_phase(1));
  coordinator.core()->end();
  // The second renewal from here began after the end, and with the third its answer was read.
  const int renewals = coordinator.calls(CoordinatorCall::kRenew) + 3;
  const auto latest = std::chrono::steady_clock::now() + kLong;
  while (coordinator.calls(CoordinatorCall::kRenew) < renewals &&
         std::chrono::steady_clock::now() < latest)
    std::this_thread::yield();
  coordinator.stop();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(worker.serve_phase(2));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong);
}

TEST_F(CoordinatedWorkerTest, ACoordinatorThatDoesNotComeIsAnError) {
  coordinator.stop();
  CoordinatedWorker worker(
      coordinated_config(kFunctionRunner0), functions, coordinator.connect(),
      CoordinatedWorkerOptions{.coordinator_timeout = std::chrono::milliseconds(20)});
  EXPECT_EQ(code_of([&] { worker.join(); }), ErrorCode::kUnavailable);
}

TEST_F(CoordinatedWorkerTest, OnlyAWorkerOfAClusterWithAChiefIsOne) {
  const auto code_for = [&](const cluster::ClusterConfig& config) {
    return code_of([&] { CoordinatedWorker(config, functions, coordinator.connect()); });
  };
  EXPECT_EQ(code_for(coordinated_config({.job = "chief", .index = 0})),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_for(coordinated_config({.job = "worker", .index = 2})),
            ErrorCode::kInvalidArgument);
  cluster::ClusterConfig without = coordinated_config(kFunctionRunner0);
  without.cluster = cluster::ClusterSpec(
      std::map<std::string, std::vector<std::string>>{{"worker", {"127.0.0.1:2"}}});
  EXPECT_EQ(code_for(without), ErrorCode::kInvalidArgument);
}

TEST(FunctionRegistry, NamesAreThereOnce) {
  Observed observed;
  FunctionRegistry<Bench> functions = bench_functions(observed);
  const auto nothing = [](Bench&, const FunctionCall&) { return FunctionData(); };
  EXPECT_EQ(code_of([&] { functions.add("square", nothing); }), ErrorCode::kAlreadyExists);
  EXPECT_EQ(code_of([&] { functions.add("counter", nothing); }), ErrorCode::kAlreadyExists);
  EXPECT_EQ(code_of([&] { functions.add("", nothing); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { functions.check_function("counter"); }), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { functions.check_dataset("square"); }), ErrorCode::kNotFound);
  functions.check_function("square");
  functions.check_dataset("counter");
}

}  // namespace
}  // namespace brigade::ps
