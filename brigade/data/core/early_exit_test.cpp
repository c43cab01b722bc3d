// Leaving an iteration early does not wait for what its threads wait for.
#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using Number = std::int64_t;

/// Leaving an iteration while one of its threads waits ends the thread immediately: by destroying
/// the iterator, starting the next epoch, or restoring. `make(wait_point)` makes a dataset whose
/// second element waits at the wait point.
template <class Make>
void expect_leaving_ends_threads(const Make& make) {
  enum class Way { kDestruction, kNextEpoch, kRestore };
  for (const Way way : {Way::kDestruction, Way::kNextEpoch, Way::kRestore}) {
    SCOPED_TRACE(static_cast<int>(way));
    const concurrency::CancelToken rescue;  // so that a failing test does not hang
    const auto wait_point = std::make_shared<WaitPoint>();
    const auto dataset = make(wait_point);
    auto iterator = std::make_unique<Iterator<typename decltype(dataset)::Element>>(
        dataset.iterator({.cancel = rescue}));
    const io::StateTree start = iterator->save();
    const auto first = iterator->next();
    ASSERT_TRUE(first);
    ASSERT_TRUE(wait_point->is_reached());
    std::promise<void> left;
    auto has_left = left.get_future();
    std::thread leaver([&] {
      if (way == Way::kDestruction) iterator = nullptr;
      if (way == Way::kNextEpoch) iterator->start_next_epoch();
      if (way == Way::kRestore) iterator->restore(start);
      left.set_value();
    });
    EXPECT_EQ(has_left.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    if (::testing::Test::HasFailure()) rescue.cancel();
    leaver.join();
    if (iterator && !::testing::Test::HasFailure()) {
      EXPECT_EQ(iterator->next(), first) << "it can be used again";
    }
  }
}

/// 0, and then a wait for the next element.
Dataset<Number> waiting(const std::shared_ptr<WaitPoint>& wait_point) {
  return waiting_range(100, 1, wait_point);
}
const auto kUnchanged = [](Number x) { return x; };

TEST(EarlyExit, EndsAWaitingSourceBeforePrefetch) {
  expect_leaving_ends_threads(
      [](const auto& wait_point) { return waiting(wait_point).prefetch(1); });
  expect_leaving_ends_threads([](const auto& wait_point) {
    return waiting(wait_point).prefetch(2).map(kUnchanged).prefetch(1);
  });
}

TEST(EarlyExit, EndsAWaitingSourceBeforeAParallelMap) {
  expect_leaving_ends_threads([](const auto& wait_point) {
    return waiting(wait_point).map(kUnchanged, {.parallelism = 2});
  });
}

TEST(EarlyExit, EndsAWaitingMapFunction) {
  for (const Order order : {Order::kInOrder, Order::kRelaxed}) {
    expect_leaving_ends_threads([order](const auto& wait_point) {
      return range(100).map(
          [wait_point](Number x, ElementContext& context) {
            if (x == 1) wait_point->wait(context.cancel);
            return x;
          },
          {.parallelism = 2, .order = order});
    });
  }
}

TEST(EarlyExit, EndsAWaitingSourceBeforeInterleave) {
  expect_leaving_ends_threads([](const auto& wait_point) {
    return waiting(wait_point)
        .interleave([](Number) { return range(1); }, {.cycle_length = 1, .parallelism = 2});
  });
}

TEST(EarlyExit, EndsWaitingInnerDatasets) {
  expect_leaving_ends_threads([](const auto& wait_point) {
    return range(3).interleave([wait_point](Number) { return waiting_range(5, 1, wait_point); },
                               {.cycle_length = 2, .parallelism = 2});
  });
  expect_leaving_ends_threads([](const auto& wait_point) {
    return range(3).flat_map([wait_point](Number) { return waiting(wait_point); }).prefetch(1);
  });
}

TEST(EarlyExit, ReachesAllStepsBelowTheThreads) {
  expect_leaving_ends_threads([](const auto& wait_point) {
    return waiting(wait_point)
        .filter([](const Number&) { return true; })
        .shuffle(1)
        .repeat(2)
        .batch(1)
        .unbatch()
        .prefetch(1);
  });
}

}  // namespace
}  // namespace brigade::data
