#include "brigade/ps/parameter_store.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/io/testing/crashing_file_system.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"

namespace brigade::ps {
namespace {

using coordination::PushId;
using coordination::PushVerdict;
using Gradients = std::vector<checkpoint::NamedTensor>;

const ParameterStoreOptions kOptions = {.folder = "/server"};

ParameterStore::Time soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

std::vector<Creation> model() {
  return {{"bias", at::zeros({3}, at::kDouble)},
          {"count", at::zeros({}, at::kLong), false},
          {"weights", at::arange(6, at::kDouble).view({2, 3})}};
}

/// A store with `model()`.
std::unique_ptr<ParameterStore> make_store(std::shared_ptr<io::FileSystem> files,
                                           const optim::UpdateRulePtr& rule) {
  auto store = std::make_unique<ParameterStore>(std::move(files), kOptions);
  store->create(model(), rule, soon());
  return store;
}

Gradients gradients(double value) {
  return {{"weights", at::full({2, 3}, value, at::kDouble)},
          {"bias", at::full({3}, value / 2, at::kDouble)}};
}

at::Tensor value(const ParameterStore& store, const std::string& name) {
  return store.pull(std::vector{name}).front().value;
}

std::vector<at::Tensor> all_values(const ParameterStore& store) {
  std::vector<at::Tensor> values;
  for (const Parameter::Reading& each : store.pull(store.names())) values.push_back(each.value);
  return values;
}

void expect_equal(const std::vector<at::Tensor>& values, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(at::equal(values[i], expected[i])) << i;
}

std::optional<ErrorCode> code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

TEST(ParameterStore, APushUpdatesEachVariableThatHasAGradient) {
  const auto store =
      make_store(std::make_shared<io::MemoryFileSystem>(), optim::Sgd{.learning_rate = 0.5}.rule());
  EXPECT_EQ(store->push({0, 0, 1}, Gradients{{"bias", at::ones({3}, at::kDouble)}}, soon()),
            PushVerdict::kApply);
  const auto readings = store->pull(std::vector<std::string>{"bias", "weights"});
  EXPECT_TRUE(at::equal(readings[0].value, at::full({3}, -0.5, at::kDouble)));
  EXPECT_EQ(readings[0].updates, 1);
  EXPECT_TRUE(at::equal(readings[1].value, model()[2].value));
  EXPECT_EQ(readings[1].updates, 0);
}

TEST(ParameterStore, ARepeatedPushIsAcknowledgedAndAppliedOnce) {
  const auto store =
      make_store(std::make_shared<io::MemoryFileSystem>(), optim::Sgd{.learning_rate = 1}.rule());
  EXPECT_EQ(store->push({0, 0, 1}, gradients(1), soon()), PushVerdict::kApply);
  const auto once = all_values(*store);
  EXPECT_EQ(store->push({0, 0, 1}, gradients(1), soon()), PushVerdict::kDuplicate);
  EXPECT_EQ(store->push({0, 0, 3}, gradients(1), soon()), PushVerdict::kGap);
  store->admit(0, 2, soon());
  EXPECT_EQ(store->push({0, 0, 2}, gradients(1), soon()), PushVerdict::kFenced);
  expect_equal(all_values(*store), once);
}

TEST(ParameterStore, CreatingAgainChangesNothingAndAnotherModelIsRefused) {
  const auto rule = optim::Adam{}.rule();
  const auto store = make_store(std::make_shared<io::MemoryFileSystem>(), rule);
  store->push({0, 0, 1}, gradients(1), soon());
  const auto trained = all_values(*store);
  store->create(model(), rule, soon());
  expect_equal(all_values(*store), trained);

  auto renamed = model();
  renamed[0].name = "biases";
  auto reshaped = model();
  reshaped[0].value = at::zeros({4}, at::kDouble);
  for (const auto& other : {renamed, reshaped, std::vector<Creation>{model()[0]}})
    EXPECT_EQ(code_of([&] { store->create(other, rule, soon()); }), ErrorCode::kAlreadyExists);
  EXPECT_EQ(code_of([&] { store->create(model(), optim::Sgd{}.rule(), soon()); }),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(code_of([&] {
              ParameterStore empty(std::make_shared<io::MemoryFileSystem>(), kOptions);
              empty.create(std::vector<Creation>{model()[0], model()[0]}, rule, soon());
            }),
            ErrorCode::kInvalidArgument);
}

TEST(ParameterStore, ABadPushChangesNothing) {
  const auto store = make_store(std::make_shared<io::MemoryFileSystem>(), optim::Adam{}.rule());
  const at::Tensor good = at::ones({3}, at::kDouble);
  const auto code = [&](const Gradients& bad) {
    return code_of([&] { store->push({0, 0, 1}, bad, soon()); });
  };
  EXPECT_EQ(code({{"bias", good}, {"bias", good}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"bias", at::ones({4}, at::kDouble)}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"bias", at::ones({3}, at::kFloat)}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"bias", good}, {"count", at::zeros({}, at::kLong)}}),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"bias", good}, {"nothing", good}}), ErrorCode::kNotFound);
  EXPECT_EQ(store->push({0, 0, 1}, gradients(0), soon()), PushVerdict::kApply)
      << "the number was not used up";
  EXPECT_EQ(code_of([&] { store->pull(std::vector<std::string>{"nothing"}); }),
            ErrorCode::kNotFound);
}

TEST(ParameterStore, WhatCannotBeAppliedIsNotLogged) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  {
    ParameterStore store(files, kOptions);
    EXPECT_EQ(code_of([&] {
                store.push({0, 0, 1}, Gradients{}, soon());
              }),
              ErrorCode::kFailedPrecondition)
        << "before the variables are created";
    EXPECT_EQ(code_of([&] { store.admit(-1, 0, soon()); }), ErrorCode::kInvalidArgument);
    const std::vector<Creation> counts = {{"count", at::zeros({}, at::kLong)}};
    EXPECT_EQ(code_of([&] { store.create(counts, optim::Sgd{}.rule(), soon()); }),
              ErrorCode::kInvalidArgument)
        << "trainable, and no floating point";
    store.create(model(), optim::Sgd{}.rule(), soon());
    store.push({0, 0, 1}, gradients(1), soon());
    EXPECT_EQ(code_of([&] { store.admit(0, -1, soon()); }), ErrorCode::kInvalidArgument);
    store.snapshot();
  }
  ParameterStore opened(files, kOptions);
  EXPECT_EQ(opened.push({0, 0, 2}, gradients(1), soon()), PushVerdict::kApply);
}

TEST(ParameterStore, OpenedAgainItHasTheSameBitsAndKnowsWhatWasApplied) {
  for (const bool has_snapshot : {false, true}) {
    const auto files = std::make_shared<io::MemoryFileSystem>();
    std::vector<at::Tensor> trained;
    {
      const auto store = make_store(files, optim::Adam{.learning_rate = 0.1}.rule());
      for (int i = 1; i <= 3; ++i) store->push({0, 0, i}, gradients(i), soon());
      store->set_learning_rate(0.01, soon());
      if (has_snapshot) store->snapshot();
      store->push({1, 4, 1}, gradients(-2), soon());
      trained = all_values(*store);
    }
    ParameterStore opened(files, kOptions);
    expect_equal(all_values(opened), trained);
    EXPECT_EQ(opened.learning_rate(), 0.01);
    EXPECT_EQ(opened.push({1, 4, 1}, gradients(-2), soon()), PushVerdict::kDuplicate);
    EXPECT_EQ(opened.push({1, 4, 2}, gradients(5), soon()), PushVerdict::kApply);

    // Slots and step counts too: the next update is that of a store that was never closed.
    const auto unbroken = make_store(std::make_shared<io::MemoryFileSystem>(),
                                     optim::Adam{.learning_rate = 0.1}.rule());
    for (int i = 1; i <= 3; ++i) unbroken->push({0, 0, i}, gradients(i), soon());
    unbroken->set_learning_rate(0.01, soon());
    unbroken->push({1, 4, 1}, gradients(-2), soon());
    unbroken->push({1, 4, 2}, gradients(5), soon());
    expect_equal(all_values(opened), all_values(*unbroken));
  }
}

TEST(ParameterStore, ConcurrentPushesHaveTheOrderOfTheLog) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  std::vector<at::Tensor> trained;
  {
    const auto store = make_store(files, optim::Sgd{.learning_rate = 0.1, .momentum = 0.9}.rule());
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
    trained = all_values(*store);
  }
  const ParameterStore opened(files, kOptions);
  expect_equal(all_values(opened), trained);
  EXPECT_EQ(opened.pull(std::vector<std::string>{"bias"}).front().updates, 120);
}

/// Both variables get the same sums, so they are equal at every moment between two pushes.
TEST(ParameterStore, APullIsFromOneMoment) {
  const auto store =
      std::make_unique<ParameterStore>(std::make_shared<io::MemoryFileSystem>(), kOptions);
  const std::vector<Creation> twins = {{"a", at::zeros({1000}, at::kDouble)},
                                       {"b", at::zeros({1000}, at::kDouble)}};
  store->create(twins, optim::Sgd{.learning_rate = 1}.rule(), soon());
  std::thread pushing([&] {
    const at::Tensor one = at::ones({1000}, at::kDouble);
    for (int i = 1; i <= 200; ++i)
      store->push({0, 0, i}, Gradients{{"a", one}, {"b", one}}, soon());
  });
  std::int64_t updates = 0;
  while (updates < 200) {
    const auto pulled = store->pull(std::vector<std::string>{"b", "a"});
    ASSERT_TRUE(at::equal(pulled[0].value, pulled[1].value));
    ASSERT_EQ(pulled[0].updates, pulled[1].updates);
    ASSERT_GE(pulled[0].updates, updates);
    updates = pulled[0].updates;
  }
  pushing.join();
}

/// The power fails at each operation of log and snapshots: the store has every acknowledged push
/// once, and the values that they make.
TEST(ParameterStore, NoPowerCutLosesOrDoublesAnAcknowledgedPush) {
  constexpr int kPushes = 5;
  std::vector<at::Tensor> values_after;  // [pushes]
  const auto make_one = [](std::shared_ptr<io::FileSystem> files) {
    auto store = std::make_unique<ParameterStore>(std::move(files), kOptions);
    const std::vector<Creation> one = {{"w", at::zeros({5}, at::kDouble)}};
    store->create(one, optim::Adam{.learning_rate = 0.1}.rule(), soon());
    return store;
  };
  const auto push = [](ParameterStore& store, int number) {
    store.push({0, 0, number}, Gradients{{"w", at::full({5}, number, at::kDouble)}}, soon());
  };
  {
    const auto store = make_one(std::make_shared<io::MemoryFileSystem>());
    values_after.push_back(value(*store, "w"));
    for (int i = 1; i <= kPushes; ++i) {
      push(*store, i);
      values_after.push_back(value(*store, "w"));
    }
  }
  int recoveries = 0;
  for (std::size_t after = 0;; ++after) {
    const auto disk = std::make_shared<io::CrashingFileSystem>();
    const auto files = std::make_shared<io::FaultyFileSystem>(disk);
    files->inject({.after = after, .length = io::FaultLength::kEverAfter});
    int acknowledged = -1;  // the creation is 0
    bool has_failed = false;
    try {
      const auto store = make_one(files);
      acknowledged = 0;
      for (int i = 1; i <= kPushes; ++i) {
        push(*store, i);
        acknowledged = i;
        if (i % 2 == 0) store->snapshot();
      }
    } catch (const Error&) {
      has_failed = true;
    }
    for (unsigned seed = 0; seed < 4; ++seed) {
      const auto kind = static_cast<io::Survivors>(seed % 3);
      ParameterStore store(disk->crash({.names = kind, .data = kind, .seed = seed}), kOptions);
      if (!store.is_created()) {
        ASSERT_LT(acknowledged, 0) << "cut after " << after;
        continue;
      }
      const auto reading = store.pull(std::vector<std::string>{"w"}).front();
      ASSERT_GE(reading.updates, acknowledged) << "cut after " << after << ", seed " << seed;
      ASSERT_LE(reading.updates, acknowledged + 1);
      ASSERT_TRUE(at::equal(reading.value, values_after[reading.updates]));
      ++recoveries;
    }
    if (!has_failed) break;
  }
  EXPECT_GT(recoveries, 50);
}

}  // namespace
}  // namespace brigade::ps
