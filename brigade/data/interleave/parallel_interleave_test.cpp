#include "brigade/data/interleave/parallel_interleave.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>

#include "brigade/data/core/source.h"
#include "brigade/data/interleave/interleave.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/number_datasets.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;
constexpr std::chrono::seconds kDeadline{20};

/// Blocks threads until it is opened, with a deadline.
class Door {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kDeadline, [this] { return is_open_; })) {
      throw Error(ErrorCode::kDeadlineExceeded, "the door stays shut");
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

TEST(ParallelInterleave, KeepsTheDatasetContractInOrder) {
  for (const std::int64_t parallelism : {2, 5, int{kAutotune}}) {
    for (const std::int64_t cycle : {1, 3}) {
      SCOPED_TRACE(::testing::Message() << parallelism << " threads, cycle " << cycle);
      const InterleaveOptions plain{.cycle_length = cycle, .block_length = 2};
      InterleaveOptions parallel = plain;
      parallel.parallelism = parallelism;
      expect_contract(range(7).interleave(tens, parallel),
                      epoch_of(range(7).interleave(tens, plain)), Length::kUnknown);
    }
  }
}

TEST(ParallelInterleave, NestsAndShuffles) {
  const auto pipeline = [](std::int64_t parallelism) {
    return range(6)
        .shuffle(6)
        .interleave(
            [parallelism](std::int64_t x) {
              return range(4).shuffle(4).interleave(
                  [x](std::int64_t y) {
                    return range(3).map([x, y](std::int64_t z) { return 100 * x + 10 * y + z; });
                  },
                  {.cycle_length = 2, .parallelism = parallelism});
            },
            {.cycle_length = 2, .parallelism = parallelism})
        .batch(5);
  };
  const auto elements = epoch_of(pipeline(1), {.seed = 3});
  EXPECT_EQ(epoch_of(pipeline(2), {.seed = 3}), elements);
  auto iterator = pipeline(2).iterator({.seed = 3});
  for (int i = 0; i < 7; ++i) iterator.next();
  auto resumed = pipeline(2).iterator();
  resumed.restore(json_round_trip(iterator.save()));
  EXPECT_EQ(rest_of(resumed), elements_from(elements, 7));
}

TEST(ParallelInterleave, AStateFitsAnyNumberOfThreads) {
  const auto dataset = [](std::int64_t parallelism) {
    return range(20).interleave(hundreds,
                                {.cycle_length = 3, .block_length = 2, .parallelism = parallelism});
  };
  const Numbers elements = epoch_of(dataset(1));
  for (const std::int64_t from : {1, 2, 4}) {
    for (const std::int64_t to : {1, 2, 4}) {
      auto saved = dataset(from).iterator();
      for (int i = 0; i < 777; ++i) saved.next();
      auto resumed = dataset(to).iterator();
      resumed.restore(json_round_trip(saved.save()));
      ASSERT_EQ(rest_of(resumed), elements_from(elements, 777)) << from << " to " << to;
    }
  }
}

TEST(ParallelInterleave, LongSkipsAreDoneByTheDatasets) {
  const auto dataset = range(60).interleave(hundreds, {.cycle_length = 4, .parallelism = 2});
  const Numbers elements = epoch_of(dataset);
  auto iterator = dataset.node()->iterator({});
  for (int i = 0; i < 10; ++i) iterator->next();
  EXPECT_EQ(iterator->skip(3000), 3000U);
  EXPECT_EQ(iterator->next(), elements[3010]);
  EXPECT_EQ(iterator->skip(3), 3U);
  EXPECT_EQ(iterator->next(), elements[3014]);
  EXPECT_EQ(iterator->skip(1'000'000), elements.size() - 3015);
  EXPECT_FALSE(iterator->next().has_value());
}

TEST(ParallelInterleave, RelaxedLosesAndRepeatsNothingAnywhere) {
  const auto dataset = range(13).interleave(
      tens, {.cycle_length = 3, .block_length = 2, .parallelism = 3, .order = Order::kRelaxed});
  EXPECT_EQ(dataset.describe(), "range(13) | interleave(cycle 3, block 2, relaxed)");
  const Numbers all = sorted(epoch_of(range(13).flat_map(tens)));
  EXPECT_EQ(sorted(epoch_of(dataset)), all);
  for (std::size_t done = 0; done <= all.size(); ++done) {
    auto iterator = dataset.iterator();
    Numbers seen;
    for (std::size_t i = 0; i < done; ++i) seen.push_back(iterator.next().value());
    auto resumed = dataset.iterator();
    resumed.restore(json_round_trip(iterator.save()));
    while (auto element = resumed.next()) seen.push_back(*element);
    ASSERT_EQ(sorted(seen), all) << "saved after " << done;
    EXPECT_FALSE(resumed.next().has_value());
  }
}

TEST(ParallelInterleave, RelaxedContinuesWhileADatasetWaits) {
  auto door = std::make_shared<Door>();
  const auto slow_first = [door](std::int64_t x) {
    return range(3).map([door, x](std::int64_t y) {
      if (x == 0) door->pass();
      return 10 * x + y;
    });
  };
  const auto dataset = range(4).interleave(
      slow_first, {.cycle_length = 2, .parallelism = 2, .order = Order::kRelaxed});
  auto iterator = dataset.iterator();
  Numbers seen;
  for (int i = 0; i < 9; ++i) seen.push_back(iterator.next().value());
  EXPECT_EQ(sorted(seen), (Numbers{10, 11, 12, 20, 21, 22, 30, 31, 32}));
  auto resumed = dataset.iterator();
  const io::StateTree state = json_round_trip(iterator.save());
  door->open();
  resumed.restore(state);
  EXPECT_EQ(rest_of(resumed), (Numbers{0, 1, 2}));
  EXPECT_EQ(rest_of(iterator), (Numbers{0, 1, 2}));
}

TEST(ParallelInterleave, IteratorOptionsMayRequestEitherOrder) {
  const auto unset = range(13).interleave(tens, {.cycle_length = 3, .parallelism = 3});
  const auto relaxed =
      range(13).interleave(tens, {.cycle_length = 3, .parallelism = 3, .order = Order::kRelaxed});
  EXPECT_EQ(epoch_of(relaxed, {.order = Order::kInOrder}), epoch_of(unset));
  EXPECT_EQ(sorted(epoch_of(unset, {.order = Order::kRelaxed})), sorted(epoch_of(unset)));
  EXPECT_EQ(internal::order_of_interleave({}, {.order = Order::kRelaxed}), Order::kRelaxed);
  EXPECT_EQ(internal::order_of_interleave({.order = Order::kInOrder}, {.order = Order::kRelaxed}),
            Order::kInOrder);
  EXPECT_EQ(internal::order_of_interleave({}, {}), Order::kInOrder);
}

TEST(ParallelInterleave, ReadsSeveralDatasetsAtTheSameTime) {
  auto latch = std::make_shared<std::latch>(3);
  const auto wait_for_others = [latch](std::int64_t x) {
    return range(1).map([latch, x](std::int64_t) {
      // All three must be inside at the same time for any to leave.
      const auto deadline = std::chrono::steady_clock::now() + kDeadline;
      if (x < 3) latch->count_down();
      while (x < 3 && !latch->try_wait()) {
        if (std::chrono::steady_clock::now() > deadline) throw Error(ErrorCode::kAborted, "alone");
        std::this_thread::yield();
      }
      return x;
    });
  };
  EXPECT_EQ(epoch_of(range(6).interleave(wait_for_others, {.cycle_length = 3, .parallelism = 3})),
            (Numbers{0, 1, 2, 3, 4, 5}));
}

TEST(ParallelInterleave, ErrorsAreThrownInOrder) {
  const auto fragile = [](std::int64_t x) {
    if (x == 1) throw Error(ErrorCode::kNotFound, "no such file");
    return range(3).map([x](std::int64_t y) {
      if (x == 2 && y == 1) throw Error(ErrorCode::kDataLoss, "broken");
      return 10 * x + y;
    });
  };
  const auto texts = [&](std::int64_t parallelism, std::size_t resume_at) {
    const auto dataset =
        range(5).interleave(fragile, {.cycle_length = 2, .parallelism = parallelism});
    auto iterator = dataset.iterator();
    std::vector<std::string> seen;
    while (true) {
      if (seen.size() == resume_at) {
        const io::StateTree state = json_round_trip(iterator.save());
        iterator = dataset.iterator();
        iterator.restore(state);
      }
      try {
        const auto element = iterator.next();
        if (!element) return seen;
        seen.push_back(std::to_string(*element));
      } catch (const Error& error) {
        seen.emplace_back(error.what());
      }
    }
  };
  const auto expected = texts(1, 100);
  EXPECT_EQ(expected.size(), 13U);
  EXPECT_EQ(expected[1],
            "range(5) | interleave(cycle 2, block 1), element 1 of epoch 0: no such file");
  for (std::size_t resume_at = 0; resume_at <= expected.size(); ++resume_at) {
    EXPECT_EQ(texts(1, resume_at), expected);
    EXPECT_EQ(texts(3, resume_at), expected);
  }
}

TEST(ParallelInterleave, RestoresASlotWhoseDatasetCannotBeCreated) {
  // The consumer's wait is cancelled while a dataset is created, which then fails: the error must
  // still be thrown, by next() and not by restore().
  auto door = std::make_shared<Door>();
  const auto fragile = [door](std::int64_t x) {
    if (x == 0) return range(2);
    door->pass();
    throw Error(ErrorCode::kNotFound, "no such file");
  };
  const concurrency::CancelToken cancel;
  const auto dataset = range(2).interleave(fragile, {.cycle_length = 2, .parallelism = 2});
  auto iterator = dataset.iterator({.cancel = cancel});
  EXPECT_EQ(iterator.next(), 0);
  std::thread canceller([&] { cancel.cancel(); });
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
  canceller.join();
  const io::StateTree state = json_round_trip(iterator.save());
  door->open();
  for (const std::int64_t parallelism : {1, 2}) {
    auto resumed =
        range(2).interleave(fragile, {.cycle_length = 2, .parallelism = parallelism}).iterator();
    resumed.restore(state);
    EXPECT_EQ(error_of([&] { resumed.next(); }).code(), ErrorCode::kNotFound);
    EXPECT_EQ(rest_of(resumed), (Numbers{1}));
  }
}

/// A dataset that cannot save its position after it was read.
class ForgetfulNode final : public Node<std::int64_t> {
 public:
  std::unique_ptr<IteratorBase<std::int64_t>> iterator(const IteratorOptions&) const override {
    return std::make_unique<Forgetful>();
  }
  std::int64_t cardinality() const override { return kInfinite; }
  std::string describe() const override { return "forgetful"; }
  std::uint64_t depth() const override { return 0; }

 private:
  class Forgetful final : public IteratorBase<std::int64_t> {
   public:
    std::optional<std::int64_t> next() override { return ++count_; }
    io::StateTree save() const override { throw Error(ErrorCode::kUnimplemented, "forgotten"); }
    void restore(const io::StateTree&) override {}

   private:
    std::int64_t count_ = 0;
  };
};

TEST(ParallelInterleave, AWorkerThatFailsIsAnErrorNotAHang) {
  auto iterator = range(4)
                      .interleave(
                          [](std::int64_t) {
                            return Dataset<std::int64_t>(std::make_shared<const ForgetfulNode>());
                          },
                          {.cycle_length = 2, .parallelism = 2})
                      .iterator();
  const Error error = error_of([&] {
    for (int i = 0; i < 1000; ++i) iterator.next();
  });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
}

TEST(ParallelInterleave, PrefetchesABoundedNumberOfElements) {
  auto opened = std::make_shared<std::atomic<int>>(0);
  auto read = std::make_shared<std::atomic<int>>(0);
  const auto counting = [opened, read](std::int64_t) {
    ++*opened;
    return range(100'000).map([read](std::int64_t y) { return ++*read, y; });
  };
  const auto dataset = range(1000).interleave(counting, {.cycle_length = 2, .parallelism = 2});
  auto iterator = dataset.iterator();
  iterator.next();
  std::this_thread::sleep_for(
      std::chrono::milliseconds(20));  // time to prefetch too much, if it could
  EXPECT_LE(*opened, 2 + 2);
  EXPECT_LE(*read, 4 * 4 * 16);
}

TEST(ParallelInterleave, LeavingEarlyEndsTheThreads) {
  auto alive = std::make_shared<int>(0);
  {
    const auto dataset = range(1000).interleave(
        [alive](std::int64_t x) { return hundreds(x).map([alive](std::int64_t y) { return y; }); },
        {.cycle_length = 4, .parallelism = 4});
    for (const std::int64_t x : dataset) {
      if (x == 10) break;
    }
    EXPECT_GT(alive.use_count(), 1);
  }
  EXPECT_EQ(alive.use_count(), 1);  // no thread holds a function any more
}

TEST(ParallelInterleave, ACancelledWaitThrowsAndLosesNothing) {
  auto door = std::make_shared<Door>();
  const auto dataset = range(3).interleave(
      [door](std::int64_t x) {
        return range(4).map([door, x](std::int64_t y) {
          if (y == 1) door->pass();
          return 10 * x + y;
        });
      },
      {.cycle_length = 3, .parallelism = 4});
  const concurrency::CancelToken cancel;
  auto iterator = dataset.iterator({.cancel = cancel});
  Numbers seen;
  for (int i = 0; i < 3; ++i) seen.push_back(iterator.next().value());
  std::thread canceller([&] { cancel.cancel(); });
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
  canceller.join();
  const io::StateTree state = json_round_trip(iterator.save());
  door->open();
  auto resumed = dataset.iterator();
  resumed.restore(state);
  for (const std::int64_t element : rest_of(resumed)) seen.push_back(element);
  EXPECT_EQ(seen, epoch_of(dataset));
}

}  // namespace
}  // namespace brigade::data
