// How stale pushes are, and the learning rate that follows it.

#include <gtest/gtest.h>

#include "brigade/base/testing/error_code.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/parameter_service.h"
#include "brigade/ps/testing/store_samples.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using coordination::PushVerdict;
using testing::expect_same_state;
using testing::gradients;
using testing::make_store;
using testing::model;
using testing::soon;
using testing::store_options;
using testing::value_of;

io::StateTree aware_job() {
  return to_state(JobConfig{.staleness_aware = true});
}

/// A push of worker `worker`, its `number`-th, that was computed with the values of `read_at`.
ParameterStore::BegunPush push_read_at(ParameterStore& store, int worker, std::int64_t number,
                                       std::optional<std::int64_t> read_at, double value = 1) {
  const auto begun = store.begin_push({.worker = worker, .incarnation = 0, .number = number},
                                      gradients(value), read_at);
  store.wait_committed(begun.record, soon());
  return begun;
}

double bias_of(const ParameterStore& store) {
  return value_of(store, "bias")[0].item<double>();
}

TEST(ParameterStoreStaleness, CountsTheStepsSinceTheValuesWereRead) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto store = make_store(files, optim::Sgd{.learning_rate = 1}.rule());
  EXPECT_EQ(push_read_at(*store, 0, 1, 0).staleness, 0);
  EXPECT_EQ(push_read_at(*store, 1, 1, 0).staleness, 1);
  EXPECT_EQ(push_read_at(*store, 2, 1, 0).staleness, 2);
  EXPECT_EQ(push_read_at(*store, 0, 2, 3).staleness, 0);
  EXPECT_EQ(push_read_at(*store, 1, 2, std::nullopt).staleness, std::nullopt);
  EXPECT_EQ(push_read_at(*store, 1, 3, 99).staleness, 0) << "of steps that a crash undid";
  const auto repeated = push_read_at(*store, 1, 3, 0);
  EXPECT_EQ(repeated.verdict, PushVerdict::kDuplicate);
  EXPECT_EQ(repeated.staleness, std::nullopt) << "it is that of the first time";
  EXPECT_THROW(push_read_at(*store, 1, 4, -1), PushRefusedError);
  EXPECT_EQ(push_read_at(*store, 1, 4, 6).verdict, PushVerdict::kApply);
  EXPECT_EQ(bias_of(*store), -3.5) << "seven pushes of half a one at a rate that nothing divides";
}

TEST(ParameterStoreStaleness, DividesTheRateIfTheJobAsksForIt) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto store = make_store(files, optim::Sgd{.learning_rate = 1}.rule(), aware_job());
  push_read_at(*store, 0, 1, 0, 16);
  EXPECT_EQ(bias_of(*store), -8);
  push_read_at(*store, 1, 1, 0, 16);
  EXPECT_EQ(bias_of(*store), -16) << "a staleness of 1 divides nothing";
  push_read_at(*store, 2, 1, 0, 16);
  EXPECT_EQ(bias_of(*store), -20) << "half the rate";
  push_read_at(*store, 0, 2, std::nullopt, 16);
  EXPECT_EQ(bias_of(*store), -28) << "of unknown staleness";
  push_read_at(*store, 1, 2, 0, 16);
  EXPECT_EQ(bias_of(*store), -30) << "a quarter";
}

TEST(ParameterStoreStaleness, DividesTheRatesOfGroups) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  ParameterStore store(files, store_options());
  std::vector<Creation> variables = model();
  variables[0].learning_rate = 0.5;  // "bias"
  store.create(variables, optim::Sgd{.learning_rate = 1}.rule(), aware_job(), soon());
  for (const int worker : {0, 1}) push_read_at(store, worker, 1, 2, 16);
  EXPECT_EQ(bias_of(store), -8);
  push_read_at(store, 2, 1, 0, 16);
  EXPECT_EQ(bias_of(store), -10);
}

TEST(ParameterStoreStaleness, DividesTheRatesOfRows) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  at::Tensor weights;
  {
    const auto store = make_store(files, optim::Sgd{.learning_rate = 1}.rule(), aware_job());
    for (const int worker : {0, 1}) push_read_at(*store, worker, 1, std::nullopt);
    weights = value_of(*store, "weights");
    const std::vector<RowGradient> rows = {{.name = "weights",
                                            .indices = at::full({1}, 1, at::kLong),
                                            .values = at::full({1, 3}, 16, at::kDouble)}};
    const auto begun = store->begin_push({.worker = 2, .incarnation = 0, .number = 1}, {}, 0, rows);
    store->wait_committed(begun.record, soon());
    EXPECT_EQ(begun.staleness, 2);
    weights[1] -= 8;
    EXPECT_TRUE(at::equal(value_of(*store, "weights"), weights)) << "half the rate";
  }
  EXPECT_TRUE(at::equal(value_of(ParameterStore(files, store_options()), "weights"), weights));
}

/// Adam, whose slots do not depend on the rate, with rates that are not exact.
TEST(ParameterStoreStaleness, ARestartGivesTheSameBits) {
  const auto rule = optim::Adam{.learning_rate = 0.1}.rule();
  for (const bool has_snapshot : {false, true}) {
    const auto files = std::make_shared<io::MemoryFileSystem>();
    const auto kept = make_store(std::make_shared<io::MemoryFileSystem>(), rule, aware_job());
    const auto push_all = [](ParameterStore& store) {
      for (int i = 0; i < 7; ++i)
        push_read_at(store, i, 1, i % 3 == 0 ? std::optional<std::int64_t>() : i / 3, i + 0.3);
    };
    push_all(*kept);
    {
      const auto store = make_store(files, rule, aware_job());
      push_all(*store);
      if (has_snapshot) store->snapshot();
      store->set_learning_rate(0.07, soon());
      push_read_at(*store, 0, 2, 2, 0.7);
    }
    kept->set_learning_rate(0.07, soon());
    push_read_at(*kept, 0, 2, 2, 0.7);
    ParameterStore opened(files, store_options());
    expect_same_state(opened, *kept);
    EXPECT_EQ(push_read_at(opened, 1, 2, 0).staleness, 8) << "it counts on";
  }
}

TEST(ParameterStoreStaleness, AJobCannotChangeWhetherItsRateFollows) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  const auto rule = optim::Sgd{.learning_rate = 1}.rule();
  const auto store = make_store(files, rule);
  EXPECT_EQ(code_of([&] { store->create(model(), rule, aware_job(), soon()); }),
            ErrorCode::kAlreadyExists);
}

}  // namespace
}  // namespace brigade::ps
