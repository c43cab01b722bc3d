#include "brigade/ps/store/parameter_store.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "brigade/base/testing/error_code.h"
#include "brigade/io/testing/crashing_file_system.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/testing/store_samples.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using coordination::PushVerdict;
using namespace testing;  // NOLINT: samples of stores

std::shared_ptr<io::MemoryFileSystem> new_disk() {
  return std::make_shared<io::MemoryFileSystem>();
}

TEST(ParameterStore, APushUpdatesEachVariableThatHasAGradient) {
  const auto store = make_store(new_disk(), optim::Sgd{.learning_rate = 0.5}.rule());
  EXPECT_EQ(store->push({0, 0, 1}, Gradients{{"bias", at::ones({3}, at::kDouble)}}, soon()),
            PushVerdict::kApply);
  const auto readings = store->pull(std::vector<std::string>{"bias", "weights"}).values;
  EXPECT_TRUE(at::equal(readings[0].value, at::full({3}, -0.5, at::kDouble)));
  EXPECT_EQ(readings[0].updates, 1);
  EXPECT_TRUE(at::equal(readings[1].value, model()[2].value));
  EXPECT_EQ(readings[1].updates, 0);
}

TEST(ParameterStore, ARepeatedPushIsAcknowledgedAndAppliedOnce) {
  const auto store = make_store(new_disk(), optim::Sgd{.learning_rate = 1}.rule());
  EXPECT_EQ(store->push({0, 0, 1}, gradients(1), soon()), PushVerdict::kApply);
  const auto once = store->states(store->names()).variables;
  EXPECT_EQ(store->step(), 1);
  EXPECT_EQ(store->push({0, 0, 1}, gradients(1), soon()), PushVerdict::kDuplicate);
  EXPECT_EQ(store->push({0, 0, 3}, gradients(1), soon()), PushVerdict::kGap);
  store->admit(0, 2, soon());
  store->admit(0, 1, soon());
  EXPECT_EQ(store->incarnation(0), 2);
  EXPECT_EQ(store->push({0, 0, 2}, gradients(1), soon()), PushVerdict::kFenced);
  EXPECT_EQ(store->step(), 1);
  for (const auto& [name, state] : once)
    expect_same_tensor(value_of(*store, name), state.value, name);
}

TEST(ParameterStore, CreatingAgainChangesNothingAndAnotherModelIsRefused) {
  const auto rule = optim::Adam{}.rule();
  const auto store = make_store(new_disk(), rule);
  store->push({0, 0, 1}, gradients(1), soon());
  const at::Tensor trained = value_of(*store, "weights");
  store->create(model(), rule, async_job(), soon());
  expect_same_tensor(value_of(*store, "weights"), trained, "weights");

  auto renamed = model();
  renamed[0].name = "biases";
  auto reshaped = model();
  reshaped[0].value = at::zeros({4}, at::kDouble);
  auto grouped = model();
  grouped[2].weight_decay = 0.1;
  auto frozen = model();
  frozen[0].is_trainable = false;
  for (const auto& other : {renamed, reshaped, grouped, frozen, std::vector<Creation>{model()[0]}})
    EXPECT_EQ(code_of([&] { store->create(other, rule, async_job(), soon()); }),
              ErrorCode::kAlreadyExists);
  EXPECT_EQ(code_of([&] { store->create(model(), optim::Sgd{}.rule(), async_job(), soon()); }),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(code_of([&] { store->create(model(), rule, sync_job(1, 1), soon()); }),
            ErrorCode::kAlreadyExists);
}

TEST(ParameterStore, ABadModelLeavesTheStoreEmpty) {
  ParameterStore store(new_disk(), store_options());
  const auto refused = [&](const Creation& bad) {
    return code_of([&] {
      store.create(std::vector<Creation>{model()[2], bad}, optim::Sgd{}.rule(), async_job(),
                   soon());
    });
  };
  const at::Tensor good = at::zeros({2}, at::kDouble);
  for (const Creation& bad :
       {model()[2], Creation{"count", at::zeros({}, at::kLong)}, Creation{"undefined", {}},
        Creation{"sparse", good.to_sparse()}, Creation{"complex", at::ones({2}, at::kComplexFloat)},
        Creation{.name = "rate", .value = good, .learning_rate = -1.0},
        Creation{.name = "decay",
        .value = good,
        .weight_decay = std::numeric_limits<double>::quiet_NaN()}})
    EXPECT_EQ(refused(bad), ErrorCode::kInvalidArgument) << bad.name;
  EXPECT_FALSE(store.is_created());
  EXPECT_TRUE(store.names().empty());
}

TEST(ParameterStore, ABadPushChangesNothing) {
  const auto store = make_store(new_disk(), optim::Adam{}.rule());
  const at::Tensor good = at::ones({3}, at::kDouble);
  const auto code = [&](const Gradients& bad) {
    return code_of([&] { store->push({0, 0, 1}, bad, soon()); });
  };
  EXPECT_EQ(code({{"bias", good}, {"bias", good}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"bias", at::ones({4}, at::kDouble)}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"bias", at::ones({3}, at::kFloat)}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"bias", good}, {"count", at::zeros({}, at::kLong)}}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"bias", at::Tensor()}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"bias", good.to_sparse()}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"bias", good}, {"nothing", good}}), ErrorCode::kNotFound);
  EXPECT_EQ(store->push({0, 0, 1}, gradients(0), soon()), PushVerdict::kApply)
      << "the number was not used up";
  EXPECT_EQ(code_of([&] { store->pull(std::vector<std::string>{"nothing"}); }),
            ErrorCode::kNotFound);
}

TEST(ParameterStore, WhatCannotBeAppliedIsNotLogged) {
  const auto files = new_disk();
  {
    ParameterStore store(files, store_options());
    EXPECT_EQ(code_of([&] {
                store.push({0, 0, 1}, Gradients{}, soon());
              }),
              ErrorCode::kFailedPrecondition)
        << "before the variables are created";
    EXPECT_EQ(code_of([&] { store.admit(-1, 0, soon()); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { store.set_ready(soon()); }), ErrorCode::kFailedPrecondition);
    store.create(model(), optim::Sgd{}.rule(), async_job(), soon());
    store.push({0, 0, 1}, gradients(1), soon());
    EXPECT_EQ(code_of([&] { store.admit(0, -1, soon()); }), ErrorCode::kInvalidArgument);
    store.snapshot();
  }
  ParameterStore opened(files, store_options());
  EXPECT_EQ(opened.push({0, 0, 2}, gradients(1), soon()), PushVerdict::kApply);
}

TEST(ParameterStore, OpenedAgainItHasTheSameBitsAndKnowsWhatWasApplied) {
  const auto rule = optim::Adam{.learning_rate = 0.1}.rule();
  const auto train = [](ParameterStore& store, bool has_snapshot) {
    for (int i = 1; i <= 3; ++i) store.push({0, 0, i}, gradients(i), soon());
    store.set_learning_rate(0.01, soon());
    store.set_ready(soon());
    if (has_snapshot) store.snapshot();
    store.push({1, 4, 1}, gradients(-2), soon());
  };
  const auto unbroken = make_store(new_disk(), rule);
  train(*unbroken, false);
  for (const bool has_snapshot : {false, true}) {
    const auto files = new_disk();
    train(*make_store(files, rule), has_snapshot);
    ParameterStore opened(files, store_options());
    expect_same_state(opened, *unbroken);
    EXPECT_EQ(opened.step(), 4);
    EXPECT_EQ(opened.push({1, 4, 1}, gradients(-2), soon()), PushVerdict::kDuplicate);
    expect_same_state(opened, *unbroken);
  }
}

TEST(ParameterStore, Bfloat16GradientsAreKeptNarrowAndWidenedBeforeTheyAreUsed) {
  const auto rule = optim::Adam{.learning_rate = 0.1}.rule();
  const auto narrow = [](int i) {
    Gradients pushed = gradients(0.1 * i);  // not a bfloat16
    for (auto& [name, gradient] : pushed) gradient = gradient.to(at::kBFloat16);
    return pushed;
  };
  const auto files = new_disk();
  const auto wide = make_store(new_disk(), rule);
  {
    const auto store = make_store(files, rule);
    for (int i = 1; i <= 3; ++i) {
      store->push({0, 0, i}, narrow(i), soon());
      Gradients same = narrow(i);
      for (auto& [name, gradient] : same) gradient = gradient.to(at::kDouble);
      wide->push({0, 0, i}, same, soon());
    }
    expect_same_state(*store, *wide);
    const io::Path log = "/server/log";
    const std::string written = files->read(log / files->list(log).front());
    EXPECT_NE(written.find("BF16"), std::string::npos);
  }
  expect_same_state(ParameterStore(files, store_options()), *wide);
}

TEST(ParameterStore, APushThatHasBegunIsReadBeforeTheDiskHasIt) {
  const auto disk = std::make_shared<io::CrashingFileSystem>();
  const auto rule = optim::Sgd{.learning_rate = 1}.rule();
  const auto store = make_store(disk, rule);
  const Gradients pushed = {{"bias", at::ones({3}, at::kDouble)}};
  const auto bias_after_crash = [&] {
    const auto survivors = disk->crash({});
    return value_of(ParameterStore(survivors, store_options()), "bias");
  };
  const ParameterStore::BegunPush begun = store->begin_push({0, 0, 1}, pushed);
  EXPECT_EQ(begun.verdict, PushVerdict::kApply);
  EXPECT_TRUE(at::equal(value_of(*store, "bias"), at::full({3}, -1, at::kDouble)));
  EXPECT_TRUE(at::equal(bias_after_crash(), at::zeros({3}, at::kDouble)));
  store->wait_committed(begun.record, soon());
  EXPECT_TRUE(at::equal(bias_after_crash(), at::full({3}, -1, at::kDouble)));
  const ParameterStore::BegunPush again = store->begin_push({0, 0, 1}, pushed);
  EXPECT_EQ(again.verdict, PushVerdict::kDuplicate);
  store->wait_committed(again.record, soon());
  EXPECT_EQ(store->begin_push({0, 0, 5}, pushed).verdict, PushVerdict::kGap);
}

TEST(ParameterStore, AnotherThreadMayWriteTheLogWhileAPushIsApplied) {
  const auto store = make_store(new_disk(), optim::Sgd{.learning_rate = 1}.rule());
  const Gradients pushed = {{"bias", at::ones({3}, at::kDouble)}};
  int calls = 0;
  const auto begun = store->begin_push({0, 0, 1}, pushed, std::nullopt, {}, [&] {
    ++calls;
    EXPECT_EQ(store->step(), 1) << "the push is in the log";
    EXPECT_EQ(store->waiting_records(), 1);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(store->waiting_records(), 1) << "the call has not written it";
  EXPECT_TRUE(at::equal(value_of(*store, "bias"), at::full({3}, -1, at::kDouble)));
  store->sync_log(soon());
  EXPECT_EQ(store->waiting_records(), 0);
  store->wait_committed(begun.record, soon());
}

/// The state counts it, so a snapshot without its update would lose it: its worker pushes it again.
TEST(ParameterStore, ASnapshotHasTheUpdateOfAPushWhoseWriteFailed) {
  const auto files = std::make_shared<io::FaultyFileSystem>(new_disk());
  // So long that it is written before its sync.
  const Gradients pushed = {{"long", at::ones({20'000}, at::kDouble)}};
  {
    ParameterStore store(files, store_options());
    store.create(std::vector<Creation>{{"long", at::zeros({20'000}, at::kDouble)}},
                 optim::Sgd{.learning_rate = 1}.rule(), async_job(), soon());
    files->inject({});
    EXPECT_EQ(code_of([&] { store.begin_push({0, 0, 1}, pushed); }), ErrorCode::kResourceExhausted);
    EXPECT_TRUE(store.has_failed());
    store.snapshot();
  }
  ParameterStore opened(files, store_options());
  opened.push({0, 0, 1}, pushed, soon());
  EXPECT_TRUE(at::equal(value_of(opened, "long"), at::full({20'000}, -1, at::kDouble)));
}

TEST(ParameterStore, AVariableOfAGroupHasItsRates) {
  const auto files = new_disk();
  auto variables = model();
  variables[0].learning_rate = 0.0;
  variables[2].weight_decay = 2.0;
  const auto rule = optim::Sgd{.learning_rate = 1}.rule();
  {
    ParameterStore store(files, store_options());
    store.create(variables, rule, async_job(), soon());
    store.create(variables, rule, async_job(), soon());
    store.set_learning_rate(0.5, soon());
    store.push({0, 0, 1}, gradients(1), soon());
    expect_same_tensor(value_of(store, "bias"), model()[0].value, "a rate of 0");
    expect_same_tensor(value_of(store, "weights"), at::full({2, 3}, -0.5, at::kDouble),
                       "w - 0.5 * (1 + 2 * w)");
    store.snapshot();
  }
  ParameterStore opened(files, store_options());
  opened.create(variables, rule, async_job(), soon());
  opened.push({0, 0, 2}, gradients(1), soon());
  expect_same_tensor(value_of(opened, "bias"), model()[0].value, "a rate of 0");
  expect_same_tensor(value_of(opened, "weights"), at::full({2, 3}, -0.5, at::kDouble),
                     "-0.5 - 0.5 * (1 + 2 * -0.5)");
}

/// A server that has no variable of the model is pushed to, too: numbers have no gaps, and `ps:0`
/// counts the job's steps.
TEST(ParameterStore, AStoreWithoutVariablesCountsPushes) {
  const auto files = new_disk();
  {
    ParameterStore store(files, store_options());
    store.create({}, optim::Adam{}.rule(), async_job(), soon());
    EXPECT_TRUE(store.is_created());
    for (int i = 1; i <= 3; ++i)
      EXPECT_EQ(store.push({0, 1, i}, Gradients{}, soon()), PushVerdict::kApply);
    store.snapshot();
    EXPECT_EQ(store.push({0, 1, 4}, Gradients{}, soon()), PushVerdict::kApply);
  }
  ParameterStore opened(files, store_options());
  EXPECT_TRUE(opened.is_created());
  EXPECT_EQ(opened.step(), 4);
  EXPECT_EQ(opened.push({0, 1, 4}, Gradients{}, soon()), PushVerdict::kDuplicate);
  EXPECT_EQ(opened.pull({}).step, 4);
  EXPECT_TRUE(opened.pull({}).values.empty());
}

/// A restore continues as if it had never stopped.
TEST(ParameterStore, PushesAfterAnAssignmentContinueFromIt) {
  const auto rule = optim::Adam{.learning_rate = 0.1}.rule();
  const auto trained = make_store(new_disk(), rule);
  for (int i = 1; i <= 3; ++i) trained->push({0, 0, i}, gradients(i), soon());
  const auto saved = trained->states(trained->names()).variables;
  trained->push({0, 0, 4}, gradients(4), soon());
  for (const bool has_snapshot : {false, true}) {
    const auto files = new_disk();
    {
      const auto store = make_store(files, rule);
      store->assign(saved, 3, soon());
      if (has_snapshot) store->snapshot();
    }
    ParameterStore store(files, store_options());
    EXPECT_EQ(store.step(), 3);
    store.push({0, 0, 1}, gradients(4), soon());
    EXPECT_EQ(store.step(), 4);
    for (const auto& [name, state] : trained->states(trained->names()).variables) {
      const NamedState own = store.states(std::vector{name}).variables.front();
      expect_same_tensor(own.state.value, state.value, name);
      EXPECT_EQ(own.state.updates, state.updates) << name;
    }
  }
}

TEST(ParameterStore, AnAssignmentIsACopyAndWithoutSlotsBeginsThemAnew) {
  const auto store = make_store(new_disk(), optim::Adam{}.rule());
  store->push({0, 0, 1}, gradients(1), soon());
  NamedState bias{.name = "bias", .state = {.value = at::full({3}, 5, at::kDouble)}};
  store->assign(std::vector{bias}, 70, soon());
  bias.state.value.zero_();
  const NamedState own = store->states(std::vector<std::string>{"bias"}).variables.front();
  expect_same_tensor(own.state.value, at::full({3}, 5, at::kDouble), "bias");
  ASSERT_EQ(own.state.slots.size(), 2);
  expect_same_tensor(own.state.slots[0], at::zeros({3}, at::kDouble), "slot");
  EXPECT_EQ(store->states(std::vector<std::string>{"weights"}).variables.front().state.updates, 1)
      << "was not assigned";
  EXPECT_EQ(store->step(), 70);
}

TEST(ParameterStore, ABadAssignmentChangesNothing) {
  const auto rule = optim::Adam{}.rule();
  const auto store = make_store(new_disk(), rule), same = make_store(new_disk(), rule);
  const at::Tensor good = at::ones({3}, at::kDouble);
  const auto code = [&](const std::vector<NamedState>& bad, std::int64_t step = 0) {
    return code_of([&] { store->assign(bad, step, soon()); });
  };
  const NamedState bias{.name = "bias", .state = {.value = good}};
  EXPECT_EQ(code({bias, bias}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({bias}, -1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({bias, {.name = "nothing", .state = {.value = good}}}), ErrorCode::kNotFound);
  EXPECT_EQ(code({{.name = "bias", .state = {.value = at::ones({4}, at::kDouble)}}}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{.name = "bias", .state = {.value = good, .slots = {good}}}}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{.name = "bias",
                   .state = {.value = good, .slots = {good, at::ones({3}, at::kFloat)}}}}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{.name = "bias", .state = {.value = good, .slots = {}, .updates = -1}}}),
            ErrorCode::kInvalidArgument);
  expect_same_state(*store, *same);
  store->set_ready(soon());
  store->set_ready(soon());
  EXPECT_TRUE(store->is_ready());
  EXPECT_EQ(code({bias}), ErrorCode::kFailedPrecondition);
}

TEST(ParameterStore, APushThatTheLogCannotTakeLeavesItsNumberFree) {
  ParameterStore store(new_disk(), {.folder = "/server", .log = {.max_record_bytes = 4096}});
  std::vector<Creation> variables;
  std::vector<checkpoint::NamedTensor> gradients;
  for (int i = 0; i < 9; ++i) {
    const std::string name = "w" + std::to_string(i);
    variables.push_back({name, at::zeros({100}, at::kDouble)});
    gradients.push_back({name, at::ones({100}, at::kDouble)});
  }
  store.create(variables, optim::Sgd{.learning_rate = 1}.rule(), async_job(), soon());
  store.set_ready(soon());
  store.admit(1, 1, soon());
  EXPECT_THROW(store.push({1, 1, 1}, gradients, soon()), PushRefusedError);
  gradients.resize(1);
  EXPECT_EQ(store.push({1, 1, 1}, gradients, soon()), PushVerdict::kApply);
  EXPECT_EQ(store.step(), 1);
}

/// Its creation and assignment are several records, of which the last one counts.
TEST(ParameterStore, AModelMayBeLongerThanARecord) {
  const ParameterStoreOptions options = {.folder = "/server", .log = {.max_record_bytes = 4096}};
  const auto rule = optim::Sgd{.learning_rate = 1, .momentum = 0.5}.rule();
  std::vector<Creation> variables;
  std::vector<NamedState> assigned;
  for (int i = 0; i < 9; ++i) {
    const std::string name = "w" + std::to_string(i);
    variables.push_back({name, at::full({100}, i, at::kDouble)});
    assigned.push_back({.name = name, .state = {.value = at::full({100}, 10 * i, at::kDouble)}});
  }
  const auto files = new_disk();
  {
    ParameterStore store(files, options);
    store.create(variables, rule, async_job(), soon());
    store.create(variables, rule, async_job(), soon());
    EXPECT_GT(store.log_bytes(), 4096);
  }
  {
    ParameterStore store(files, options);
    ASSERT_EQ(store.names().size(), 9);
    for (const Creation& each : variables)
      expect_same_tensor(value_of(store, each.name), each.value, each.name);
    store.assign(assigned, 8, soon());
  }
  const ParameterStore store(files, options);
  EXPECT_EQ(store.step(), 8);
  for (const NamedState& each : assigned)
    expect_same_tensor(value_of(store, each.name), each.state.value, each.name);

  ParameterStore other(new_disk(), options);
  const std::vector<Creation> large = {{"small", at::zeros({1})}, {"large", at::zeros({5000})}};
  EXPECT_EQ(code_of([&] { other.create(large, rule, async_job(), soon()); }),
            ErrorCode::kInvalidArgument);
  EXPECT_FALSE(other.is_created());
}

TEST(ParameterStore, AReadTakesNoMoreMemoryThanAllowed) {
  ParameterStoreOptions options = store_options();
  options.max_read_bytes = 6 * sizeof(double);  // "weights"
  ParameterStore store(new_disk(), options);
  store.create(model(), optim::Adam{}.rule(), async_job(), soon());
  using Names = std::vector<std::string>;
  EXPECT_EQ(store.pull(Names{"weights"}).values.size(), 1);
  for (const Names& names : {Names{"count", "count"}, Names{"weights", "count"}}) {
    EXPECT_EQ(code_of([&] { store.pull(names); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { store.states(names); }), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(code_of([&] { store.states(Names{"weights"}); }), ErrorCode::kInvalidArgument)
      << "its slots count";
  EXPECT_EQ(store.states(Names{"count"}).variables.size(), 1) << "it has no slots";
}

TEST(ParameterStore, KnowsHowLongItsLogIs) {
  const auto files = new_disk();
  std::uint64_t bytes = 0;
  {
    const auto store = make_store(files, optim::Sgd{}.rule());
    const std::uint64_t created = store->log_bytes();
    EXPECT_GT(created, 0);
    store->push({0, 0, 1}, gradients(1), soon());
    EXPECT_GT(store->log_bytes(), created + 9 * sizeof(double));
    store->snapshot();
    EXPECT_EQ(store->log_bytes(), 0);
    store->push({0, 0, 2}, gradients(1), soon());
    bytes = store->log_bytes();
    EXPECT_GT(bytes, 0);
  }
  EXPECT_EQ(ParameterStore(files, store_options()).log_bytes(), bytes);
}

TEST(ParameterStore, ConcurrentPushesHaveTheOrderOfTheLog) {
  const auto files = new_disk();
  const auto store = make_store(files, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9}.rule());
  {
    std::atomic<bool> is_done = false;
    std::vector<std::thread> threads;
    for (int worker = 0; worker < 3; ++worker)
      threads.emplace_back([&, worker] {
        for (int i = 1; i <= 40; ++i)
          EXPECT_EQ(store->push({worker, 0, i}, gradients(0.1 * worker + 1.0 / i), soon()),
                    PushVerdict::kApply);
      });
    std::thread saving([&] {
      while (!is_done) store->snapshot();
    });
    for (std::thread& thread : threads) thread.join();
    is_done = true;
    saving.join();
  }
  const ParameterStore opened(files, store_options());
  expect_same_state(opened, *store);
  EXPECT_EQ(opened.pull(std::vector<std::string>{"bias"}).values.front().updates, 120);
  EXPECT_EQ(opened.step(), 120);
}

/// Both variables get the same sums, so they are equal at every moment between two pushes.
TEST(ParameterStore, APullIsFromOneMoment) {
  const auto store = std::make_unique<ParameterStore>(new_disk(), store_options());
  const std::vector<Creation> twins = {{"a", at::zeros({1000}, at::kDouble)},
                                       {"b", at::zeros({1000}, at::kDouble)}};
  store->create(twins, optim::Sgd{.learning_rate = 1}.rule(), async_job(), soon());
  std::thread pushing([&] {
    const at::Tensor one = at::ones({1000}, at::kDouble);
    for (int i = 1; i <= 200; ++i)
      store->push({0, 0, i}, Gradients{{"a", one}, {"b", one}}, soon());
  });
  std::int64_t updates = 0;
  while (updates < 200) {
    const auto [pulled, rows, step] = store->pull(std::vector<std::string>{"b", "a"});
    ASSERT_EQ(step, pulled[0].updates);
    ASSERT_TRUE(at::equal(pulled[0].value, pulled[1].value));
    ASSERT_EQ(pulled[0].updates, pulled[1].updates);
    ASSERT_GE(pulled[0].updates, updates);
    updates = pulled[0].updates;
  }
  pushing.join();
}

}  // namespace
}  // namespace brigade::ps
