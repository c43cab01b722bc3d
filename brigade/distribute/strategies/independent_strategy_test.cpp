#include "brigade/distribute/strategies/independent_strategy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>

#include "brigade/base/testing/manual_clock.h"
#include "brigade/data/core/source.h"
#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

IndependentOptions on_cpus(int count) {
  return {.devices = cpus(count).devices, .allow_oversubscription = true};
}

/// The numbers below `size`; counts how often one is made.
struct Counted {
  std::shared_ptr<std::atomic<int>> made = std::make_shared<std::atomic<int>>(0);
  data::Dataset<std::int64_t> numbers;
  explicit Counted(std::int64_t size)
      : numbers(data::range(size).map([made = made](std::int64_t x) {
          ++*made;
          return x;
        })) {}
};

TEST(IndependentStrategy, RunsEachTrialOnceOnItsOwnDevice) {
  IndependentStrategy independent(on_cpus(2));
  const auto results = independent.run(5, [](Trial& trial) {
    EXPECT_EQ(trial.strategy().devices()[0].name.to_string(), trial.device());
    EXPECT_EQ(trial.strategy().num_replicas_in_sync(), 1);
    return TrialMetrics{{"square", trial.index() * trial.index()}};
  });
  ASSERT_EQ(results.size(), 5u);
  for (int index = 0; index < 5; ++index) {
    const TrialResult& result = results[static_cast<std::size_t>(index)];
    EXPECT_EQ(result.index, index);
    EXPECT_EQ(result.status, TrialStatus::kCompleted);
    EXPECT_EQ(result.metrics.at("square"), index * index);
    EXPECT_TRUE(result.device == "cpu:0" || result.device == "cpu:1") << result.device;
    EXPECT_EQ(result.reason, "");
  }
}

TEST(IndependentStrategy, TrialsOfDifferentDevicesRunAtTheSameTime) {
  IndependentStrategy independent(on_cpus(2));
  std::atomic<int> begun = 0;
  const auto results = independent.run([&](Trial&) {
    ++begun;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (begun < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return TrialMetrics{{"seen", begun.load()}};
  });
  ASSERT_EQ(results.size(), 2u);
  EXPECT_NE(results[0].device, results[1].device);
  for (const TrialResult& result : results) EXPECT_EQ(result.metrics.at("seen"), 2);
}

TEST(IndependentStrategy, ATrialThatThrowsFailsAlone) {
  IndependentStrategy independent(on_cpus(2));
  const auto results = independent.run(4, [](Trial& trial) {
    if (trial.index() == 1) throw Error(ErrorCode::kDataLoss, "the file is broken");
    if (trial.index() == 2) throw std::runtime_error("out of luck");
  });
  EXPECT_EQ(results[0].status, TrialStatus::kCompleted);
  EXPECT_EQ(results[1].status, TrialStatus::kFailed);
  EXPECT_EQ(results[1].reason, "the file is broken");
  EXPECT_THROW(std::rethrow_exception(results[1].error), Error);
  EXPECT_EQ(results[2].reason, "out of luck");
  EXPECT_EQ(results[3].status, TrialStatus::kCompleted);
}

TEST(IndependentStrategy, AFailureCanEndTheRun) {
  IndependentOptions options = on_cpus(1);
  options.stop_on_failure = true;
  IndependentStrategy independent(options);
  const auto results = independent.run(3, [](Trial& trial) {
    if (trial.index() == 1) throw std::runtime_error("no");
  });
  EXPECT_EQ(results[0].status, TrialStatus::kCompleted);
  EXPECT_EQ(results[1].status, TrialStatus::kFailed);
  EXPECT_EQ(results[2].status, TrialStatus::kCancelled);
  EXPECT_EQ(results[2].device, "");
}

TEST(IndependentStrategy, SharedDataAreMadeOnceForAllTrials) {
  const Counted counted(300);
  IndependentStrategy independent(on_cpus(3));
  const auto results = independent.run([&](Trial& trial) {
    std::int64_t expected = 0;
    for (const std::int64_t x : trial.dataset(counted.numbers)) EXPECT_EQ(x, expected++);
    return TrialMetrics{{"elements", static_cast<double>(expected)}};
  });
  for (const TrialResult& result : results) EXPECT_EQ(result.metrics.at("elements"), 300);
  EXPECT_EQ(*counted.made, 300);
  EXPECT_EQ(independent.shared_elements_made(), 300);
}

TEST(IndependentStrategy, QueuedTrialsHavePassesOfTheirOwnUnlessDataAreCached) {
  const Counted counted(40), kept(40);
  const auto cached = kept.numbers.cache();
  IndependentStrategy independent(on_cpus(2));
  independent.run(5, [&](Trial& trial) {
    for (const auto& each : {trial.dataset(counted.numbers), trial.dataset(cached)})
      EXPECT_EQ(each.reduce(0, [](std::int64_t sum, std::int64_t x) { return sum + x; }), 780);
  });
  EXPECT_EQ(*counted.made, 3 * 40);  // of trials 0 and 1, 2 and 3, and 4
  EXPECT_EQ(*kept.made, 40);
}

TEST(IndependentStrategy, ATrialThatFailsOrEndsReleasesTheOthers) {
  const Counted counted(200);
  IndependentOptions options = on_cpus(3);
  options.max_ahead = 2;
  IndependentStrategy independent(options);
  const auto results = independent.run([&](Trial& trial) {
    int seen = 0;
    for (const std::int64_t x : trial.dataset(counted.numbers)) {
      EXPECT_EQ(x, seen);
      if (trial.index() == 0 && seen == 50) throw std::runtime_error("tired");
      if (trial.index() == 1 && seen == 90) return;
      ++seen;
    }
    EXPECT_EQ(seen, 200);
  });
  EXPECT_EQ(results[0].status, TrialStatus::kFailed);
  EXPECT_EQ(results[1].status, TrialStatus::kCompleted);
  EXPECT_EQ(results[2].status, TrialStatus::kCompleted);
  EXPECT_EQ(*counted.made, 200);
}

TEST(IndependentStrategy, TheRuleStopsBadTrials) {
  IndependentOptions options = on_cpus(1);  // one after another: the same in every run
  options.stopping = MedianStopping{.grace_epochs = 2};
  IndependentStrategy independent(options);
  const std::vector<double> losses = {1.0, 2.0, 9.0, 0.5, 8.0};
  const auto results = independent.run(5, [&](Trial& trial) {
    for (int epoch = 1; epoch <= 6 && !trial.should_stop(); ++epoch)
      trial.report(epoch, {{"loss", losses[static_cast<std::size_t>(trial.index())]}});
  });
  const auto epochs = [&](std::size_t index) { return results[index].reports.size(); };
  EXPECT_EQ(epochs(0), 6u);
  EXPECT_EQ(epochs(1), 6u);  // of one other there is no median
  EXPECT_EQ(epochs(2), 3u);
  EXPECT_EQ(results[2].status, TrialStatus::kStopped);
  EXPECT_NE(results[2].reason.find("worse than the median"), std::string::npos);
  EXPECT_EQ(results[2].metrics.at("loss"), 9.0);
  EXPECT_EQ(epochs(3), 6u);
  EXPECT_EQ(results[3].status, TrialStatus::kCompleted);
  EXPECT_EQ(epochs(4), 3u);
}

TEST(IndependentStrategy, ATrialThatIsNotStoppedHasCompleted) {
  IndependentOptions options = on_cpus(1);
  options.stopping = MedianStopping{.grace_epochs = 0, .min_trials = 1};
  IndependentStrategy independent(options);
  const auto results = independent.run(2, [&](Trial& trial) {
    trial.report(1, {{"loss", trial.index()}});
  });
  EXPECT_EQ(results[1].status, TrialStatus::kCompleted);
}

TEST(IndependentStrategy, ReportsMustGoForwardAndHaveTheMetric) {
  IndependentOptions options = on_cpus(1);
  options.stopping = MedianStopping{.metric = "loss"};
  IndependentStrategy independent(options);
  const auto results = independent.run(2, [](Trial& trial) {
    trial.report(2, {{"loss", 1.0}});
    trial.report(trial.index() == 0 ? 2 : 3, {{"accuracy", 1.0}});
  });
  EXPECT_NE(results[0].reason.find("has reported epoch 2"), std::string::npos);
  EXPECT_NE(results[1].reason.find("accuracy"), std::string::npos) << results[1].reason;
}

TEST(IndependentStrategy, CancellingEndsWaitsAndTheQueue) {
  const concurrency::CancelToken cancel;
  IndependentOptions options = on_cpus(2);
  options.cancel = cancel;
  options.max_ahead = 1;
  IndependentStrategy independent(options);
  const Counted counted(10);
  const auto results = independent.run(4, [&](Trial& trial) {
    if (trial.index() == 0) {
      for (const auto x : trial.dataset(counted.numbers)) EXPECT_LE(x, 1);  // waits for trial 1
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel.cancel();
    while (!trial.should_stop()) std::this_thread::yield();
  });
  for (const TrialResult& result : results) EXPECT_EQ(result.status, TrialStatus::kCancelled);
  EXPECT_EQ(results[3].device, "");
}

TEST(IndependentStrategy, ATimeoutStopsTrialsAndNobodyWaitsForThoseThatNeverBegin) {
  IndependentOptions options = on_cpus(2);
  options.max_ahead = 1;
  options.timeout = std::chrono::minutes(5);
  base::ManualClock clock;
  options.clock = &clock;
  IndependentStrategy independent(options);
  const Counted counted(20);
  const auto results = independent.run(4, [&](Trial& trial) {
    if (trial.index() == 2) {
      clock.advance(*options.timeout);  // so that trial 3, which would read it too, never begins
      EXPECT_EQ(trial.dataset(counted.numbers).reduce(0, [](int n, auto) { return n + 1; }), 20);
    }
    while (trial.index() != 0 && !trial.should_stop()) std::this_thread::yield();
  });
  EXPECT_EQ(results[0].status, TrialStatus::kCompleted);
  EXPECT_EQ(results[1].status, TrialStatus::kStopped);
  EXPECT_EQ(results[1].reason, "the time of the run is over");
  EXPECT_EQ(results[2].status, TrialStatus::kStopped);
  EXPECT_EQ(results[3].status, TrialStatus::kCancelled);
}

TEST(IndependentStrategy, ReportsChanges) {
  IndependentOptions options = on_cpus(2);
  std::vector<TrialStatus> seen;
  options.on_change = [&](const TrialResult& trial) {
    if (trial.index == 2) seen.push_back(trial.status);
  };
  IndependentStrategy(options).run(3, [](Trial& trial) { trial.report(1, {{"loss", 2.0}}); });
  EXPECT_EQ(seen,
            (std::vector{TrialStatus::kRunning, TrialStatus::kRunning, TrialStatus::kCompleted}));
  options.on_change = [](const TrialResult&) { throw std::runtime_error("no room"); };
  IndependentStrategy failing(options);
  EXPECT_THROW(failing.run(3, [](Trial&) {}), std::runtime_error);
}

TEST(IndependentStrategy, RefusesWrongOptions) {
  const auto code_with = [](IndependentOptions options) {
    return error_from([&] { IndependentStrategy strategy(options); }).code();
  };
  EXPECT_EQ(code_with({.devices = {"cpu:0", "cpu:0"}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_with({.devices = {"gpu:99"}}), ErrorCode::kNotFound);
  EXPECT_EQ(code_with({.max_ahead = 0}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_with({.timeout = std::chrono::milliseconds(0)}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_with({.stopping = MedianStopping{.metric = ""}}), ErrorCode::kInvalidArgument);
  IndependentStrategy independent(on_cpus(1));
  EXPECT_EQ(error_from([&] { independent.run(0, [](Trial&) {}); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(TrialTable, HasALineForEachTrialAndTheReasons) {
  const std::vector<TrialResult> results = {
      {.index = 0,
       .device = "cpu:0",
       .status = TrialStatus::kCompleted,
       .metrics = {{"accuracy", 0.5}, {"loss", 1.25}},
       .reports = {{2, {}}},
       .seconds = 1.5},
      {.index = 1, .status = TrialStatus::kFailed, .reason = "no data"}};
  EXPECT_EQ(trial_table(results, {"rate=0.1", "rate=10"}),
            "trial  parameters  device  status     epoch  seconds  accuracy  loss\n"
            "0      rate=0.1    cpu:0   completed  2      1.5      0.5       1.25\n"
            "1      rate=10     -       failed     -      0.0      -         -\n"
            "trial 1 failed: no data\n");
}

}  // namespace
}  // namespace brigade::distribute
