#include "brigade/data/transforms/shared_readers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using Numbers = std::vector<std::int64_t>;
using std::chrono::milliseconds;

/// The numbers below `size`, and how often one was made.
struct Counted {
  std::shared_ptr<std::atomic<int>> made = std::make_shared<std::atomic<int>>(0);
  Dataset<std::int64_t> numbers;
  explicit Counted(std::int64_t size)
      : numbers(range(size).map([made = made](std::int64_t x) {
          ++*made;
          return x;
        })) {}
};

Numbers read_all(const SharedReaders& readers, const Dataset<std::int64_t>& dataset, int reader,
                 const IteratorOptions& options = {}) {
  Numbers all = epoch_of(readers.dataset(dataset, reader), options);
  readers.end(reader);
  return all;
}

TEST(SharedReaders, EveryReaderGetsEveryElementAndEachIsMadeOnce) {
  const Counted counted(500);
  const SharedReaders readers({.readers = 3, .max_ahead = 4});
  std::vector<std::future<Numbers>> results;
  for (int reader = 0; reader < 3; ++reader)
    results.push_back(std::async(
        std::launch::async, [&, reader] { return read_all(readers, counted.numbers, reader); }));
  for (auto& result : results) EXPECT_EQ(result.get(), epoch_of(range(500)));
  EXPECT_EQ(*counted.made, 500);
  EXPECT_EQ(readers.elements_read(), 500);
}

TEST(SharedReaders, OrderIsThatOfTheDatasetInEveryEpoch) {
  const auto shuffled = range(40).shuffle(40);
  const SharedReaders readers({.readers = 2});
  const auto read = [&](int reader) {
    auto iterator = readers.dataset(shuffled, reader).prefetch(3).iterator({.seed = 5});
    Numbers all = rest_of(iterator);
    iterator.start_next_epoch();
    for (const std::int64_t each : rest_of(iterator)) all.push_back(each);
    readers.end(reader);
    return all;
  };
  auto other = std::async(std::launch::async, read, 1);
  Numbers expected = epoch_of(shuffled, {.seed = 5});
  for (const auto each : epoch_of(shuffled, {.seed = 5, .epoch = 1})) expected.push_back(each);
  EXPECT_EQ(read(0), expected);
  EXPECT_EQ(other.get(), expected);
  EXPECT_EQ(readers.elements_read(), 80);
}

TEST(SharedReaders, TheFastestWaitsForTheSlowest) {
  const Counted counted(100);
  const SharedReaders readers({.readers = 2, .max_ahead = 3});
  std::atomic<int> taken{0};
  auto fast = std::async(std::launch::async, [&] {
    for (const auto x : readers.dataset(counted.numbers, 0)) taken = static_cast<int>(x) + 1;
  });
  auto slow = readers.dataset(counted.numbers, 1).iterator();
  for (int read = 0; read < 5; ++read) {
    while (taken < read + 3) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(taken, read + 3);
    EXPECT_EQ(*counted.made, read + 3);
    slow.next();
  }
  readers.end(1);
  fast.get();
  EXPECT_EQ(taken, 100);
}

TEST(SharedReaders, OneThatLeavesAPassReleasesTheOthers) {
  const Counted counted(50);
  const SharedReaders readers({.readers = 2, .max_ahead = 2});
  auto fast = std::async(std::launch::async, [&] { return read_all(readers, counted.numbers, 0); });
  {
    auto slow = readers.dataset(counted.numbers, 1).iterator();
    slow.next();
  }
  EXPECT_EQ(fast.get().size(), 50u);
}

TEST(SharedReaders, RepeatedPassesOverOneEpochBelongTogetherByTheirNumbers) {
  const Counted counted(10);
  const SharedReaders readers({.readers = 2});
  const auto read_twice = [&](int reader) {
    const auto shared = readers.dataset(counted.numbers, reader);
    EXPECT_EQ(epoch_of(shared), epoch_of(range(10)));
    EXPECT_EQ(epoch_of(shared), epoch_of(range(10)));
    readers.end(reader);
  };
  auto other = std::async(std::launch::async, read_twice, 1);
  read_twice(0);
  other.get();
  EXPECT_EQ(*counted.made, 20);
}

TEST(SharedReaders, AnElementThatFailsDoesSoForAll) {
  const auto dataset = range(5).map([](std::int64_t x) {
    if (x == 2) throw Error(ErrorCode::kDataLoss, "broken");
    return x;
  });
  const SharedReaders readers({.readers = 2});
  const auto read = [&](int reader) {
    auto iterator = readers.dataset(dataset, reader).iterator();
    Numbers good;
    int failures = 0;
    for (bool more = true; more;) {
      try {
        const auto element = iterator.next();
        more = element.has_value();
        if (element) good.push_back(*element);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
        ++failures;
      }
    }
    EXPECT_EQ(good, (Numbers{0, 1, 3, 4}));
    EXPECT_EQ(failures, 1);
    readers.end(reader);
  };
  auto other = std::async(std::launch::async, read, 1);
  read(0);
  other.get();
}

TEST(SharedReaders, OneReadsAloneIfAllWaitForEachOther) {
  const Counted first(20), second(20);
  const SharedReaders readers({.readers = 2, .max_ahead = 2, .patience = milliseconds(20)});
  const auto read = [&](int reader, const Dataset<std::int64_t>& one,
                        const Dataset<std::int64_t>& other) {
    EXPECT_EQ(epoch_of(readers.dataset(one, reader)), epoch_of(range(20)));
    EXPECT_EQ(epoch_of(readers.dataset(other, reader)), epoch_of(range(20)));
    readers.end(reader);
  };
  auto other = std::async(std::launch::async, [&] { read(1, second.numbers, first.numbers); });
  read(0, first.numbers, second.numbers);
  other.get();
  EXPECT_GT(*first.made + *second.made, 40);
  EXPECT_LE(*first.made + *second.made, 80);
}

TEST(SharedReaders, AReaderThatHasNotBegunIsWaitedForHoweverLongThatTakes) {
  const Counted counted(20);
  const SharedReaders readers({.readers = 2, .max_ahead = 2, .patience = milliseconds(10)});
  auto early =
      std::async(std::launch::async, [&] { return read_all(readers, counted.numbers, 0); });
  EXPECT_EQ(early.wait_for(milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(read_all(readers, counted.numbers, 1).size(), 20u);
  EXPECT_EQ(early.get().size(), 20u);
  EXPECT_EQ(*counted.made, 20);
}

TEST(SharedReaders, WaitsEndWhenTheyAreCancelled) {
  for (const bool by_group : {true, false}) {
    const concurrency::CancelToken group, own;
    const SharedReaders readers({.readers = 2, .max_ahead = 2, .cancel = group});
    auto waiting = std::async(std::launch::async, [&] {
      return error_of([&] { read_all(readers, range(9), 0, {.cancel = own}); }).code();
    });
    EXPECT_EQ(waiting.wait_for(milliseconds(30)), std::future_status::timeout);
    (by_group ? group : own).cancel();
    EXPECT_EQ(waiting.get(), ErrorCode::kCancelled);
  }
}

TEST(SharedReaders, PositionsAreThoseOfTheDataset) {
  const auto dataset = range(30).shuffle(8).batch(2);
  const SharedReaders readers({.readers = 2});
  readers.end(1);
  auto shared = readers.dataset(dataset, 0).iterator({.seed = 4});
  auto alone = dataset.iterator({.seed = 4});
  EXPECT_EQ(shared.save(), alone.save());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(shared.next(), alone.next());
  EXPECT_EQ(shared.save(), alone.save());
  auto resumed = readers.dataset(dataset, 0).iterator({.seed = 1});
  resumed.restore(alone.save());
  EXPECT_EQ(rest_of(resumed), rest_of(alone));
}

TEST(SharedReaders, KeepsTheDatasetContract) {
  const SharedReaders readers({.readers = 1});
  for (const std::uint64_t epoch : {0, 3})
    expect_resumes_everywhere(readers.dataset(range(12).shuffle(5).batch(2), 0), epoch);
}

TEST(SharedReaders, ReadsAloneAfterItsEnd) {
  const SharedReaders readers({.readers = 2, .max_ahead = 1});
  readers.end(0);
  EXPECT_EQ(epoch_of(readers.dataset(range(5), 0)), epoch_of(range(5)));
}

TEST(SharedReaders, RefusesWrongNumbers) {
  expect_invalid_argument([] { SharedReaders({.readers = 0}); }, "readers is 0");
  expect_invalid_argument([] { SharedReaders({.max_ahead = 0}); }, "max_ahead is 0");
  const SharedReaders readers({.readers = 2});
  EXPECT_EQ(error_of([&] { readers.dataset(range(2), 2); }).code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(error_of([&] { readers.end(-1); }).code(), ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace brigade::data
