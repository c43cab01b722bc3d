#include "brigade/data/with_options.h"

#include <gtest/gtest.h>

#include <latch>

#include "brigade/data/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the battery

TEST(WithOptions, PassesTheBattery) {
  expect_contract(range(20).prefetch(2).with_options({}).batch(3), epoch_of(range(20).batch(3)));
}

TEST(WithOptions, IsNoStepOfTheRecipe) {
  const auto dataset = range(9).with_options({.order = Order::kRelaxed});
  EXPECT_EQ(dataset.describe(), "range(9)");
  EXPECT_EQ(dataset.node()->depth(), 0U);
}

TEST(WithOptions, RelaxesTheStepsThatDoNotChoose) {
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

TEST(WithOptions, KeepsTheOrderWhateverTheStepsChoose) {
  const auto same = [](std::int64_t x) { return x; };
  const auto relaxed = range(40).map(same, {.parallelism = 4, .order = Order::kRelaxed});
  expect_contract(relaxed.with_options({.order = Order::kInOrder}), epoch_of(range(40)));
}

TEST(WithOptions, TurnsAutotuningOff) {
  const auto spins = [](std::int64_t x) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (std::chrono::steady_clock::now() < until) {
    }
    return x;
  };
  const auto threads_after = [&](const Tuning& tuning) {
    auto iterator = range(200)
                        .map(spins, {.parallelism = kAutotune})
                        .with_options({.tuning = tuning})
                        .iterator();
    while (iterator.next()) {
    }
    return iterator.stats().at(0).threads;
  };
  EXPECT_EQ(threads_after({.autotune = Autotune::kOff}), threads_for(kAutotune, "map"));
  EXPECT_EQ(threads_after({.cpu_budget = 0.5}), 1U);
}

}  // namespace
}  // namespace brigade::data
