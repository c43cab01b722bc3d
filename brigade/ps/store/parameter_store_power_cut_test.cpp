#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>

#include "brigade/base/error.h"
#include "brigade/io/testing/crashing_file_system.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/adam.h"
#include "brigade/ps/store/parameter_store.h"
#include "brigade/ps/testing/store_samples.h"

namespace brigade::ps {
namespace {

using namespace testing;  // NOLINT: samples of stores

/// Calls of a store, one after another.
using Script = std::vector<std::function<void(ParameterStore&)>>;

/// Records so short that a creation and an assignment are several.
ParameterStoreOptions power_cut_options() {
  return {.folder = "/server", .log = {.segment_bytes = 2000, .max_record_bytes = 2048}};
}

std::vector<Creation> power_cut_model() {
  std::vector<Creation> variables;
  for (int i = 0; i < 3; ++i)
    variables.push_back({"w" + std::to_string(i), at::full({60}, i, at::kDouble)});
  return variables;
}

Gradients power_cut_gradients(double value) {
  return {{"w0", at::full({60}, value, at::kDouble)}, {"w2", at::full({60}, -value, at::kDouble)}};
}

void add_beginning(Script& script, const io::StateTree& job) {
  script.push_back([job](ParameterStore& store) {
    store.create(power_cut_model(), optim::Adam{.learning_rate = 0.1}.rule(), job, soon());
  });
  script.push_back([](ParameterStore& store) {
    std::vector<NamedState> states;
    for (const Creation& each : power_cut_model())
      states.push_back(
          {.name = each.name, .state = {.value = at::full({60}, 8, at::kDouble), .updates = 5}});
    store.assign(states, 10, soon());
  });
  script.push_back([](ParameterStore& store) { store.set_ready(soon()); });
  for (const int worker : {0, 1})
    script.push_back([worker](ParameterStore& store) { store.admit(worker, 1, soon()); });
}

void add_snapshot(Script& script) {
  script.push_back([](ParameterStore& store) { store.snapshot(); });
}

Script async_script() {
  Script script;
  add_beginning(script, async_job());
  for (int i = 1; i <= 4; ++i) {
    for (const int worker : {1, 0})
      script.push_back([worker, i](ParameterStore& store) {
        store.push({worker, 1, i}, power_cut_gradients(worker + 0.1 * i), soon());
      });
    if (i % 2 == 0) add_snapshot(script);
    if (i == 3)
      script.push_back([](ParameterStore& store) { store.set_learning_rate(0.01, soon()); });
  }
  return script;
}

/// Two gradients make a step; a snapshot comes between a gradient and its decision.
Script sync_script() {
  Script script;
  add_beginning(script, sync_job(2, 2));
  for (std::int64_t step = 10; step < 13; ++step) {
    for (const int worker : {1, 0}) {
      script.push_back([worker, step](ParameterStore& store) {
        store.offer({worker, 1, step - 9}, step, 0, power_cut_gradients(worker + 0.1 * step),
                    soon());
      });
      if (step == 11) add_snapshot(script);
    }
    script.push_back([step](ParameterStore& store) {
      store.apply({step, {{0, 0}, {1, 0}}}, soon());
    });
  }
  return script;
}

/// Workers finish, and one of them has a successor.
Script ending_script() {
  Script script;
  add_beginning(script, async_job());
  const auto add_push = [&](int worker, std::int64_t incarnation, std::int64_t number) {
    script.push_back([=](ParameterStore& store) {
      store.push({worker, incarnation, number}, power_cut_gradients(0.1 * worker + 1), soon());
    });
  };
  const auto add_finish = [&](int worker, std::int64_t incarnation) {
    script.push_back([=](ParameterStore& store) { store.finish(worker, incarnation, soon()); });
  };
  add_push(0, 1, 1);
  add_finish(0, 1);
  add_snapshot(script);
  add_push(1, 1, 1);
  script.push_back([](ParameterStore& store) { store.admit(0, 2, soon()); });
  add_push(0, 2, 1);
  add_finish(1, 1);
  add_finish(0, 1);  // of the one that was replaced: changes nothing
  add_push(0, 2, 2);
  add_finish(0, 2);
  return script;
}

/// Decisions have rates of their own; gradients come too late, and from a successor in place of
/// those of a worker that has died.
Script decided_rates_script() {
  Script script;
  add_beginning(script, sync_job(2, 3));
  script.push_back([](ParameterStore& store) { store.admit(2, 1, soon()); });
  const auto add_offer = [&](const coordination::PushId& id, std::int64_t step) {
    script.push_back([=](ParameterStore& store) {
      store.offer(id, step, 0,
                  power_cut_gradients(id.worker + 0.1 * static_cast<double>(id.number)), soon());
    });
  };
  for (std::int64_t step = 10; step < 13; ++step) {
    const double rate = 0.2 / static_cast<double>(step);
    add_offer({0, 1, step - 9}, step);
    add_offer(step < 12 ? coordination::PushId{1, 1, step - 9} : coordination::PushId{1, 2, 2},
              step);
    if (step == 11) {
      script.push_back([](ParameterStore& store) { store.admit(1, 2, soon()); });
      add_snapshot(script);
      add_offer({1, 2, 1}, step);
    }
    script.push_back([rate](ParameterStore& store) { store.set_learning_rate(rate / 2, soon()); });
    script.push_back([=](ParameterStore& store) {
      store.apply({step, {{0, 0}, {1, 0}}, rate}, soon());
    });
    add_offer({2, 1, step - 9}, step);
  }
  return script;
}

std::vector<RowGradient> power_cut_rows(std::int64_t first) {
  return {{.name = "w1",
           .indices = at::arange(first, first + 12, 4, at::kLong),
           .values = at::full({3}, 0.5 * static_cast<double>(first), at::kDouble)}};
}

/// Updates of rows; the learning rate of each follows its staleness.
Script rows_script() {
  Script script;
  add_beginning(script, to_state(JobConfig{.staleness_aware = true}));
  for (std::int64_t i = 1; i <= 4; ++i) {
    for (const int worker : {1, 0})
      script.push_back([worker, i](ParameterStore& store) {
        const auto rows = power_cut_rows(worker + i);
        std::function<void()> write_log;
        if (i == 3) write_log = [] {};  // whoever waits writes
        const auto begun = store.begin_push({worker, 1, i}, power_cut_gradients(worker + 1),
                                            /*read_at=*/10, rows, write_log);
        store.wait_committed(begun.record, soon());
      });
    if (i == 2) add_snapshot(script);
  }
  return script;
}

/// The same in synchronous steps.
Script synchronous_rows_script() {
  Script script;
  add_beginning(script, sync_job(2, 2));
  for (std::int64_t step = 10; step < 13; ++step) {
    for (const int worker : {0, 1}) {
      script.push_back([worker, step](ParameterStore& store) {
        store.offer({worker, 1, step - 9}, step, 0, power_cut_gradients(worker + 1),
                    power_cut_rows(worker + step), soon());
      });
      if (step == 11) add_snapshot(script);
    }
    script.push_back([step](ParameterStore& store) {
      store.apply({step, {{0, 0}, {1, 0}}}, soon());
    });
  }
  return script;
}

/// Makes the calls from `first` on. Returns how many have returned, counted from the first of all.
std::size_t make_calls(ParameterStore& store, const Script& script, std::size_t first) {
  for (std::size_t i = first; i < script.size(); ++i) {
    try {
      script[i](store);
    } catch (const Error&) {
      return i;
    }
  }
  return script.size();
}

/// The power fails at each operation of log and snapshots. Calls that have returned are not made
/// again, the one that failed is: the store ends as if nothing had happened.
void expect_survival(const Script& script) {
  ParameterStore expected(std::make_shared<io::MemoryFileSystem>(), power_cut_options());
  ASSERT_EQ(make_calls(expected, script, 0), script.size());
  int recoveries = 0;
  for (std::size_t after = 0;; ++after) {
    const auto disk = std::make_shared<io::CrashingFileSystem>();
    const auto files = std::make_shared<io::FaultyFileSystem>(disk);
    files->inject({.after = after, .length = io::FaultLength::kEverAfter});
    std::size_t returned = 0;
    try {
      ParameterStore store(files, power_cut_options());
      returned = make_calls(store, script, 0);
    } catch (const Error&) {  // it could not even be opened
    }
    if (returned == script.size()) break;
    for (unsigned seed = 0; seed < 4; ++seed) {
      const auto kind = static_cast<io::Survivors>(seed % 3);
      ParameterStore store(disk->crash({.names = kind, .data = kind, .seed = seed}),
                           power_cut_options());
      SCOPED_TRACE(::testing::Message() << "cut after " << after << " operations and " << returned
                                        << " calls, seed " << seed);
      ASSERT_EQ(make_calls(store, script, returned), script.size());
      expect_same_state(store, expected);
      if (::testing::Test::HasFatalFailure()) return;
      ++recoveries;
    }
  }
  EXPECT_GT(recoveries, 100);
}

TEST(ParameterStorePowerCut, NoAcknowledgedPushIsLostOrDoubled) {
  expect_survival(async_script());
}

TEST(ParameterStorePowerCut, NoGradientOrDecisionOfAStepIsLostOrDoubled) {
  expect_survival(sync_script());
}

TEST(ParameterStorePowerCut, WhoHasFinishedAndWhoWasReplacedIsKept) {
  expect_survival(ending_script());
}

TEST(ParameterStorePowerCut, ADecisionIsAppliedAtItsRateWithTheSuccessorsGradient) {
  expect_survival(decided_rates_script());
}

TEST(ParameterStorePowerCut, NoUpdateOfRowsIsLostOrDoubled) {
  expect_survival(rows_script());
}

TEST(ParameterStorePowerCut, NoUpdateOfRowsOfAStepIsLostOrDoubled) {
  expect_survival(synchronous_rows_script());
}

}  // namespace
}  // namespace brigade::ps
