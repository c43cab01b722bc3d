#include "brigade/data/core/with_options.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <latch>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers

TEST(WithOptions, KeepsTheContract) {
  expect_contract(range(20).prefetch(2).with_options({}).batch(3), epoch_of(range(20).batch(3)));
}

TEST(WithOptions, IsNotAStepOfThePipeline) {
  const auto dataset = range(9).with_options({.order = Order::kRelaxed});
  EXPECT_EQ(dataset.describe(), "range(9)");
  EXPECT_EQ(dataset.node()->depth(), 0U);
}

TEST(WithOptions, RelaxesTheStepsThatSetNoOrder) {
  const auto others = std::make_shared<std::latch>(1);
  const auto slow_first = [others](std::int64_t x) {
    if (x == 0) others->wait();
    return x;
  };
  const auto mapped = range(50).map(slow_first, {.parallelism = 2});
  auto relaxed = mapped.with_options({.order = Order::kRelaxed}).prefetch(1).iterator();
  EXPECT_NE(relaxed.next(), 0);
  others->count_down();
  EXPECT_EQ(rest_of(relaxed).size(), 49U);
}

TEST(WithOptions, KeepsTheOrderWhateverTheStepsSet) {
  const auto same = [](std::int64_t x) { return x; };
  const auto relaxed = range(40).map(same, {.parallelism = 4, .order = Order::kRelaxed});
  expect_contract(relaxed.with_options({.order = Order::kInOrder}), epoch_of(range(40)));
}

std::int64_t spin(std::int64_t x) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(500);
  while (std::chrono::steady_clock::now() < until) {
  }
  return x;
}

TEST(WithOptions, TurnsAutotuningOff) {
  auto iterator = range(300)
                      .map(spin, {.parallelism = kAutotune})
                      .with_options({.tuning = {.autotune = Autotune::kOff, .cpu_budget = 0.1}})
                      .iterator();
  rest_of(iterator);
  EXPECT_EQ(iterator.stats().at(0).threads, threads_for(kAutotune, "map"));
}

TEST(WithOptions, GivesAutotuningABudget) {
  auto iterator = range(1'000'000)
                      .map(spin, {.parallelism = kAutotune})
                      .with_options({.tuning = {.cpu_budget = 0.1}})
                      .iterator();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    iterator.next();
  } while (iterator.stats().at(0).threads > 1 && std::chrono::steady_clock::now() < deadline);
  EXPECT_EQ(iterator.stats().at(0).threads, 1U);
}

}  // namespace
}  // namespace brigade::data
