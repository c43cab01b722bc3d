#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <new>
#include <thread>

#include "brigade/base/testing/error_code.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/store/parameter_store.h"
#include "brigade/ps/testing/store_samples.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using coordination::PushVerdict;
using coordination::StepDecision;
using namespace testing;  // NOLINT: samples of stores

/// In float32, so that the order of additions shows. Differs for each worker and step.
Gradients sync_gradients(int worker, std::int64_t step) {
  return {{"w", at::full({20}, 0.1F + 1e7F * static_cast<float>(worker == 1) -
                                   1e7F * static_cast<float>(worker == 2) +
                                   0.3F * static_cast<float>(step))}};
}

std::unique_ptr<ParameterStore> sync_store(std::shared_ptr<io::FileSystem> files,
                                           const io::StateTree& job) {
  auto store = std::make_unique<ParameterStore>(std::move(files), store_options());
  const std::vector<Creation> variables = {{"unused", at::ones({2})}, {"w", at::zeros({20})}};
  store->create(variables, optim::Adam{.learning_rate = 0.1}.rule(), job, soon());
  return store;
}

std::unique_ptr<ParameterStore> sync_store(const io::StateTree& job) {
  return sync_store(std::make_shared<io::MemoryFileSystem>(), job);
}

/// Worker `worker`'s gradient of `step`, its first.
PushVerdict give(ParameterStore& store, int worker, std::int64_t step) {
  return store.offer({worker, 1, step + 1}, step, 0, sync_gradients(worker, step), soon());
}

/// While it lives, `before` is called before each allocation of a tensor; it may throw.
class WatchedAllocations final : public c10::Allocator {
 public:
  explicit WatchedAllocations(std::function<void()> before)
      : before_(std::move(before)), inner_(*c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this);
  }
  ~WatchedAllocations() override { c10::SetCPUAllocator(&inner_); }
  c10::DataPtr allocate(std::size_t bytes) override {
    before_();
    return inner_.allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_.raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner_.copy_data(to, from, bytes);
  }

 private:
  const std::function<void()> before_;
  c10::Allocator& inner_;
};

TEST(ParameterStoreSync, TheBitsOfAStepDoNotDependOnTheOrderOfArrival) {
  const auto expected = sync_store(sync_job(3, 4));
  const std::vector<StepDecision> decisions = {{0, {{0, 0}, {1, 0}, {2, 0}}},
                                               {1, {{0, 0}, {1, 0}, {3, 0}}}};
  for (const StepDecision& decision : decisions) {
    for (const int worker : {0, 1, 2, 3}) give(*expected, worker, decision.step);
    expected->apply(decision, soon());
  }
  std::vector<int> order = {0, 1, 2, 3};
  int orders = 0;
  do {
    const auto files = std::make_shared<io::MemoryFileSystem>();
    {
      const auto store = sync_store(files, sync_job(3, 4));
      for (const StepDecision& decision : decisions) {
        for (const int worker : order)
          ASSERT_EQ(give(*store, worker, decision.step), PushVerdict::kApply);
        store->apply(decision, soon());
      }
      expect_same_state(*store, *expected);
    }
    expect_same_state(ParameterStore(files, store_options()), *expected);
    ++orders;
  } while (std::ranges::next_permutation(order).found && !HasFatalFailure());
  EXPECT_EQ(orders, 24);
}

TEST(ParameterStoreSync, AStepIsOneUpdateOfWhatHasAGradient) {
  const auto store = make_store(std::make_shared<io::MemoryFileSystem>(),
                                optim::Sgd{.learning_rate = 1}.rule(), sync_job(2, 2));
  const Gradients both = gradients(2), weights = {gradients(3)[0]};
  store->offer({0, 1, 1}, 0, 0, both, soon());
  store->offer({1, 1, 1}, 0, 0, weights, soon());
  EXPECT_EQ(store->step(), 0);
  expect_same_tensor(value_of(*store, "bias"), model()[0].value, "before the decision");
  store->apply({0, {{0, 0}, {1, 0}}}, soon());
  const ParameterStore::Pulled pulled = store->pull(std::vector<std::string>{"bias", "weights"});
  EXPECT_EQ(pulled.step, 1);
  const auto& values = pulled.values;
  expect_same_tensor(values[0].value, at::full({3}, -1, at::kDouble), "worker 1 has none: zero");
  expect_same_tensor(values[1].value, model()[2].value - 5, "the sum");
  EXPECT_EQ(values[0].updates, 1);
  EXPECT_EQ(values[1].updates, 1);

  store->offer({0, 1, 2}, 1, 0, weights, soon());
  store->offer({1, 1, 2}, 1, 0, Gradients{}, soon());
  store->apply({1, {{0, 0}, {1, 0}}}, soon());
  EXPECT_EQ(store->pull(std::vector<std::string>{"bias"}).values[0].updates, 1) << "unchanged";
  EXPECT_EQ(store->pull(std::vector<std::string>{"weights"}).values[0].updates, 2);
  EXPECT_EQ(store->step(), 2);
}

TEST(ParameterStoreSync, GradientsAreCopies) {
  const auto store = sync_store(sync_job(1, 1)), same = sync_store(sync_job(1, 1));
  const Gradients given = sync_gradients(0, 0);
  store->offer({0, 1, 1}, 0, 0, given, soon());
  given[0].tensor.zero_();
  give(*same, 0, 0);
  for (ParameterStore* each : {store.get(), same.get()}) each->apply({0, {{0, 0}}}, soon());
  expect_same_state(*store, *same);
}

TEST(ParameterStoreSync, ADecisionIsAppliedOnceAndInOrder) {
  const auto store = sync_store(sync_job(1, 2)), same = sync_store(sync_job(1, 2));
  const StepDecision first{0, {{0, 0}}}, second{1, {{1, 0}}};
  EXPECT_EQ(code_of([&] { store->apply(first, soon()); }), ErrorCode::kFailedPrecondition)
      << "the gradient is missing";
  give(*store, 0, 0);
  EXPECT_EQ(code_of([&] { store->apply(second, soon()); }), ErrorCode::kFailedPrecondition)
      << "the first comes before";
  EXPECT_EQ(code_of([&] {
              store->apply({0, {{1, 0}, {0, 0}}}, soon());
            }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(store->last_decision(), std::nullopt);
  store->apply(first, soon());
  store->apply(first, soon());
  EXPECT_EQ(store->last_decision(), first);
  give(*same, 0, 0);
  same->apply(first, soon());
  expect_same_state(*store, *same);
}

TEST(ParameterStoreSync, GradientsOfADecidedStepAreDroppedAndTheirPushIsDoneWith) {
  const auto store = sync_store(sync_job(1, 2));
  const std::uint64_t created = store->log_bytes();
  give(*store, 0, 0);
  const std::uint64_t whole = store->log_bytes() - created;
  store->apply({0, {{0, 0}}}, soon());
  const at::Tensor value = value_of(*store, "w");
  const std::uint64_t bytes = store->log_bytes();
  EXPECT_EQ(give(*store, 1, 0), PushVerdict::kApply);
  EXPECT_LE(store->log_bytes(), bytes + whole - 20 * sizeof(float)) << "without its tensor";
  EXPECT_EQ(give(*store, 1, 0), PushVerdict::kDuplicate);
  EXPECT_EQ(code_of([&] { store->apply({1, {{1, 0}}}, soon()); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(give(*store, 1, 1), PushVerdict::kApply);
  expect_same_tensor(value_of(*store, "w"), value, "w");
}

TEST(ParameterStoreSync, AWorkerHasItsQuotaOfTheStepInProgressAndTheNext) {
  const auto store = sync_store(sync_job(4, 2));  // a quota of 2
  const auto offer = [&](std::int64_t number, std::int64_t step, int index) {
    return store->offer({0, 1, number}, step, index, sync_gradients(0, step), soon());
  };
  EXPECT_EQ(code_of([&] { offer(1, 0, 2); }), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of([&] { offer(1, 2, 0); }), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of([&] { offer(1, 0, -1); }), ErrorCode::kInvalidArgument);
  std::int64_t number = 0;
  for (const std::int64_t step : {0, 1})
    for (const int index : {0, 1}) EXPECT_EQ(offer(++number, step, index), PushVerdict::kApply);
  EXPECT_EQ(offer(number, 1, 1), PushVerdict::kDuplicate);
  EXPECT_EQ(offer(number + 2, 1, 1), PushVerdict::kGap);
  store->apply({0, {{0, 0}, {0, 1}}}, soon());
  EXPECT_EQ(offer(++number, 2, 0), PushVerdict::kApply) << "refusals used no number up";

  const auto async = sync_store(async_job());
  EXPECT_EQ(code_of([&] { give(*async, 0, 0); }), ErrorCode::kFailedPrecondition);
}

TEST(ParameterStoreSync, ABadGradientIsRefusedByName) {
  const auto store = sync_store(sync_job(1, 1));
  const auto code = [&](const Gradients& bad) {
    return code_of([&] { store->offer({0, 1, 1}, 0, 0, bad, soon()); });
  };
  EXPECT_EQ(code({{"w", at::Tensor()}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"w", at::ones({20}).to_sparse()}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"w", at::ones({21})}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({{"nothing", at::ones({20})}}), ErrorCode::kNotFound);
  EXPECT_EQ(give(*store, 0, 0), PushVerdict::kApply);
}

TEST(ParameterStoreSync, ASuccessorReplacesWhatTheWorkerGave) {
  const auto store = sync_store(sync_job(2, 2)), same = sync_store(sync_job(2, 2));
  const StepDecision decision{0, {{0, 0}, {1, 0}}};
  store->offer({1, 1, 1}, 0, 0, Gradients{{"w", at::full({20}, 77.0F)}}, soon());
  store->admit(1, 2, soon());
  for (ParameterStore* each : {store.get(), same.get()}) {
    each->offer({1, 2, 1}, 0, 0, sync_gradients(1, 0), soon());
    give(*each, 0, 0);
    each->apply(decision, soon());
  }
  expect_same_state(*store, *same);
  EXPECT_EQ(give(*store, 1, 1), PushVerdict::kFenced) << "incarnation 1";
}

TEST(ParameterStoreSync, ASnapshotHasTheGradientsOfStepsThatAreNotDecided) {
  const auto expected = sync_store(sync_job(2, 2));
  const StepDecision first{0, {{0, 0}, {1, 0}}}, second{1, {{0, 0}, {1, 0}}};
  const auto files = std::make_shared<io::MemoryFileSystem>();
  {
    const auto store = sync_store(files, sync_job(2, 2));
    give(*store, 0, 0);
    give(*store, 1, 0);
    store->apply(first, soon());
    give(*store, 1, 1);
    store->snapshot();
    EXPECT_EQ(store->log_bytes(), 0) << "so all is in the snapshot";
  }
  ParameterStore opened(files, store_options());
  EXPECT_EQ(opened.last_decision(), first);
  EXPECT_EQ(give(opened, 1, 1), PushVerdict::kDuplicate);
  EXPECT_EQ(give(opened, 0, 1), PushVerdict::kApply);
  opened.apply(second, soon());
  for (const StepDecision& decision : {first, second}) {
    for (const int worker : {0, 1}) give(*expected, worker, decision.step);
    expected->apply(decision, soon());
  }
  expect_same_state(opened, *expected);
}

TEST(ParameterStoreSync, TheStepAfterAnAssignmentIsTheOneAssigned) {
  const auto store = sync_store(sync_job(1, 1));
  store->assign({}, 50, soon());
  EXPECT_EQ(store->offer({0, 1, 1}, 50, 0, sync_gradients(0, 0), soon()), PushVerdict::kApply);
  store->apply({50, {{0, 0}}}, soon());
  EXPECT_EQ(store->step(), 51);
}

/// Memory runs out when a decision is in the log and its gradients are added; others have read the
/// state with the decision already, and wait for the variable.
TEST(ParameterStoreSync, NobodyReadsOrSavesADecisionThatWasHalfApplied) {
  const auto read = [](int kind, ParameterStore& store) {
    if (kind == 0) store.pull(store.names());
    if (kind == 1) store.states(store.names());
    if (kind == 2) store.snapshot();
  };
  for (const int kind : {0, 1, 2}) {
    const auto files = std::make_shared<io::MemoryFileSystem>();
    const auto store = sync_store(files, sync_job(2, 2));
    for (const int worker : {0, 1}) give(*store, worker, 0);
    std::promise<void> is_committed, has_begun;
    std::atomic<bool> is_reading = false;
    const auto applying = std::this_thread::get_id();
    std::future<ErrorCode> reader;
    {
      const WatchedAllocations watched([&] {
        if (std::this_thread::get_id() != applying) {
          if (!is_reading.exchange(true)) has_begun.set_value();  // it copies "unused"
          return;
        }
        is_committed.set_value();
        EXPECT_EQ(has_begun.get_future().wait_until(soon()), std::future_status::ready);
        throw std::bad_alloc();
      });
      reader = std::async(std::launch::async, [&] {
        EXPECT_EQ(is_committed.get_future().wait_until(soon()), std::future_status::ready);
        return code_of([&] { read(kind, *store); });
      });
      EXPECT_THROW(store->apply({0, {{0, 0}, {1, 0}}}, soon()), std::bad_alloc);
      EXPECT_EQ(reader.get(), ErrorCode::kFailedPrecondition) << kind;
    }
    EXPECT_FALSE(files->exists("/server/snapshots")) << "the log has the decision alone";
  }
}

/// As servers work: workers' threads offer, one of them decides, others apply the decision again,
/// while values are pulled and snapshots written.
TEST(ParameterStoreSync, ConcurrentStepsHaveTheBitsOfQuietOnes) {
  constexpr int kWorkers = 3, kSteps = 20;
  const auto expected = sync_store(sync_job(kWorkers, kWorkers));
  const auto decision_of = [](std::int64_t step) {
    StepDecision decision{step, {}};
    for (int worker = 0; worker < kWorkers; ++worker) decision.contributions.push_back({worker, 0});
    return decision;
  };
  for (std::int64_t step = 0; step < kSteps; ++step) {
    for (int worker = 0; worker < kWorkers; ++worker) give(*expected, worker, step);
    expected->apply(decision_of(step), soon());
  }
  const auto files = std::make_shared<io::MemoryFileSystem>();
  {
    const auto store = sync_store(files, sync_job(kWorkers, kWorkers));
    std::vector<std::atomic<int>> given(kSteps);
    std::atomic<bool> is_done = false;
    std::vector<std::thread> threads;
    for (int worker = 0; worker < kWorkers; ++worker)
      threads.emplace_back([&, worker] {
        for (std::int64_t step = 0; step < kSteps; ++step) {
          EXPECT_EQ(give(*store, worker, step), PushVerdict::kApply);
          ++given[step];
          given[step].notify_all();
          for (int now = given[step]; now < kWorkers; now = given[step]) given[step].wait(now);
          store->apply(decision_of(step), soon());
          EXPECT_GT(store->pull(std::vector<std::string>{"w"}).step, step);
        }
      });
    std::thread saving([&] {
      while (!is_done) store->snapshot();
    });
    for (std::thread& thread : threads) thread.join();
    is_done = true;
    saving.join();
    expect_same_state(*store, *expected);
  }
  expect_same_state(ParameterStore(files, store_options()), *expected);
}

}  // namespace
}  // namespace brigade::ps
