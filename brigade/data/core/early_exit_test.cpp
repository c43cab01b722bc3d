// Who leaves a walk does not wait for what its threads wait for.
#include <gtest/gtest.h>

#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the battery
using Number = std::int64_t;

/// Leaving a walk while a thread of it waits for its token ends at once, by destruction, by the
/// next epoch and by going elsewhere. `make` makes the dataset, whose first element comes and whose
/// second one waits at the gatehouse.
template <class Make>
void expect_ends_when_left(const Make& make) {
  enum class Way { kDestruction, kNextEpoch, kRestore };
  for (const Way way : {Way::kDestruction, Way::kNextEpoch, Way::kRestore}) {
    SCOPED_TRACE(static_cast<int>(way));
    const concurrency::CancelToken rescue;  // so that a failure is no hanging test
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
    std::thread leaving([&] {
      if (way == Way::kDestruction) iterator = nullptr;
      if (way == Way::kNextEpoch) iterator->start_next_epoch();
      if (way == Way::kRestore) iterator->restore(start);
      left.set_value();
    });
    EXPECT_EQ(has_left.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    if (::testing::Test::HasFailure()) rescue.cancel();
    leaving.join();
    if (iterator && !::testing::Test::HasFailure()) {
      EXPECT_EQ(iterator->next(), first) << "it can be walked on";
    }
  }
}

/// 0, and then a wait.
Dataset<Number> waiting(const std::shared_ptr<WaitPoint>& wait_point) {
  return waiting_range(100, 1, wait_point);
}
const auto kSame = [](Number x) { return x; };

TEST(Leaving, EndsASourceThatWaitsBeforePrefetch) {
  expect_ends_when_left([](const auto& house) { return waiting(house).prefetch(1); });
  expect_ends_when_left(
      [](const auto& house) { return waiting(house).prefetch(2).map(kSame).prefetch(1); });
}

TEST(Leaving, EndsASourceThatWaitsBeforeAParallelMap) {
  expect_ends_when_left(
      [](const auto& house) { return waiting(house).map(kSame, {.parallelism = 2}); });
}

TEST(Leaving, EndsAMapFunctionThatWaits) {
  for (const Order order : {Order::kInOrder, Order::kRelaxed}) {
    expect_ends_when_left([order](const auto& house) {
      return range(100).map(
          [house](Number x, ElementContext& context) {
            if (x == 1) house->wait(context.cancel);
            return x;
          },
          {.parallelism = 2, .order = order});
    });
  }
}

TEST(Leaving, EndsASourceThatWaitsBeforeInterleave) {
  expect_ends_when_left([](const auto& house) {
    return waiting(house).interleave([](Number) { return range(1); },
                                     {.cycle_length = 1, .parallelism = 2});
  });
}

TEST(Leaving, EndsInnerDatasetsThatWait) {
  expect_ends_when_left([](const auto& house) {
    return range(3).interleave([house](Number) { return waiting_range(5, 1, house); },
                               {.cycle_length = 2, .parallelism = 2});
  });
  expect_ends_when_left([](const auto& house) {
    return range(3).flat_map([house](Number) { return waiting(house); }).prefetch(1);
  });
}

TEST(Leaving, ReachesEveryStepBeforeTheThreads) {
  expect_ends_when_left([](const auto& house) {
    return waiting(house)
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
