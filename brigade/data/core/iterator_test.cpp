#include "brigade/data/core/iterator.h"

#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/failing_sources.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using Numbers = std::vector<std::int64_t>;

TEST(Iterator, OutlivesItsDataset) {
  auto iterator = range(3).map([](std::int64_t x) { return x; }, {.parallelism = 2}).iterator();
  EXPECT_EQ(rest_of(iterator), (Numbers{0, 1, 2}));
}

TEST(Iterator, CanBeMovedWhileItsThreadsRun) {
  auto iterator = range(50).prefetch(4).iterator();
  EXPECT_EQ(iterator.next(), 0);
  auto moved = std::move(iterator);
  EXPECT_EQ(moved.next(), 1);
  moved = range(7).prefetch(2).iterator();
  EXPECT_EQ(moved.next(), 0);
}

TEST(Iterator, RangeForContinuesAtThePosition) {
  auto iterator = range(5).iterator();
  iterator.next();
  Numbers seen;
  for (const auto x : iterator) seen.push_back(x);
  EXPECT_EQ(seen, (Numbers{1, 2, 3, 4}));
}

TEST(Iterator, SkipsElements) {
  auto iterator = range(5).iterator();
  EXPECT_EQ(iterator.skip(2), 2u);
  const io::StateTree position = iterator.save();
  EXPECT_EQ(iterator.next(), 2);
  EXPECT_EQ(iterator.skip(9), 2u);
  EXPECT_EQ(iterator.next(), std::nullopt);
  iterator.restore(position);
  EXPECT_EQ(iterator.next(), 2);
}

TEST(Iterator, StartsTheNextEpochFromAnyPosition) {
  auto iterator = range(10).shuffle(10).prefetch(3).iterator({.seed = 2, .epoch = 4});
  iterator.next();
  iterator.start_next_epoch();
  EXPECT_EQ(iterator.epoch(), 5U);
  EXPECT_EQ(rest_of(iterator), epoch_of(range(10).shuffle(10), {.seed = 2, .epoch = 5}));
}

TEST(Iterator, TakesSeedAndEpochFromTheState) {
  const auto dataset = range(10).shuffle(10);
  auto saved = dataset.iterator({.seed = 8, .epoch = 3});
  saved.next();
  auto resumed = dataset.iterator({.seed = 1});
  resumed.restore(saved.save());
  EXPECT_EQ(resumed.epoch(), 3U);
  rest_of(resumed);
  resumed.start_next_epoch();
  EXPECT_EQ(rest_of(resumed), epoch_of(dataset, {.seed = 8, .epoch = 4}));
}

TEST(Iterator, RefusesTheStateOfAnotherPipeline) {
  auto saved = range(10).batch(2).iterator();
  auto other = range(10).batch(2).take(3).iterator();
  expect_invalid_argument([&] { other.restore(saved.save()); }, "step 3, take(3), was not there");
  EXPECT_EQ(other.next(), (Numbers{0, 1}));
}

TEST(Iterator, ThrowsOnceItIsCancelled) {
  const concurrency::CancelToken token;
  auto iterator = range(5).batch(2).iterator({.cancel = token});
  EXPECT_EQ(iterator.next(), (Numbers{0, 1}));
  token.cancel();
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
  auto resumed = range(5).batch(2).iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(resumed.next(), (Numbers{2, 3})) << "cancelled between two elements, nothing is lost";
}

TEST(Iterator, CancellingEndsAStepWithoutThreads) {
  expect_cancels([](const auto& source) { return source; });
  expect_cancels([](const auto& source) { return source.shuffle(20).batch(3).repeat(); });
}

TEST(Iterator, RefusesToSaveIfElementsMayBeLost) {
  const concurrency::CancelToken token;
  const auto cancels = [token](std::int64_t x) {
    if (x == 3) token.cancel();
    token.throw_if_cancelled("element");
    return x;
  };
  auto iterator = range(9).map(cancels).batch(2).iterator({.cancel = token});
  EXPECT_EQ(iterator.next(), (Numbers{0, 1}));
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
  EXPECT_EQ(error_of([&] { iterator.save(); }).code(), ErrorCode::kFailedPrecondition);
}

TEST(Iterator, SkippingDoesNotCountCancelledCallsAsElements) {
  const concurrency::CancelToken token;
  const CancellableSource source(10, token);
  const auto dataset = source.dataset();
  const auto reads = [&](const IteratorOptions& options) {
    const auto length = [](std::int64_t) { return 1; };
    return std::vector<std::function<void()>>{
        [=] { dataset.node()->iterator(options)->skip(1'000'000); },
        [=] { dataset.skip(1'000'000).node()->iterator(options)->next(); },
        [=] { dataset.batch(2).unbatch().node()->iterator(options)->skip(1'000'000); },
        [=] { dataset.batch(2).rebatch(3).node()->iterator(options)->skip(1'000'000); },
        [=] {
          const auto buckets = dataset.bucket_by_sequence_length(
              {.length = length, .boundaries = {3}, .batch_sizes = {2, 2}});
          buckets.node()->iterator(options)->skip(1'000'000);
        },
        [=] { dataset.assert_cardinality(0).node()->iterator(options)->next(); },
        [=] { dataset.assert_cardinality(5).node()->iterator(options)->skip(1'000'000); }};
  };
  token.cancel();
  for (const auto& read : reads({.cancel = token})) {
    EXPECT_EQ(error_of(read).code(), ErrorCode::kCancelled);
  }
  EXPECT_LT(source.calls(), 100);
}

TEST(Iterator, RestoringACancelledIteratorThrows) {
  const concurrency::CancelToken token;
  const auto dataset = CancellableSource(10, token).dataset().prefetch(2);
  auto iterator = dataset.iterator({.cancel = token});
  const io::StateTree start = iterator.save();
  for (int i = 0; i < 5; ++i) iterator.next();
  const io::StateTree state = iterator.save();
  auto other = dataset.iterator({.cancel = token});
  token.cancel();
  EXPECT_EQ(error_of([&] { other.restore(state); }).code(), ErrorCode::kCancelled);
  EXPECT_EQ(io::to_json(other.save()).json, io::to_json(start).json);
}

TEST(Iterator, StartingAnEpochCanBeRetried) {
  auto iterator = source_failing_at(2, 1).iterator();
  EXPECT_EQ(error_of([&] { iterator.start_next_epoch(); }).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(error_of([&] { iterator.save(); }).code(), ErrorCode::kFailedPrecondition);
  iterator.start_next_epoch();
  EXPECT_EQ(iterator.epoch(), 1U);
  EXPECT_EQ(rest_of(iterator), (Numbers{0, 1}));
}

}  // namespace
}  // namespace brigade::data
