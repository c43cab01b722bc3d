#include "brigade/data/interleave/prefetch_queue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data::internal {
namespace {

using testing::error_of;
using Maker = InnerMaker<std::int64_t, std::int64_t>;
using Reader = InterleaveReader<std::int64_t, std::int64_t>;
using ReaderQueue = Reader::Queue;

/// The dataset of an element is range(element); for a negative element it cannot be created.
Maker maker(IteratorOptions options = {}) {
  return {[](std::int64_t&& x) {
            if (x < 0) throw Error(ErrorCode::kNotFound, "no such file");
            return range(x).node();
          },
          "test", options};
}
ReaderQueue queue_of(std::int64_t element) {
  return ReaderQueue({{}, {element, nullptr}});
}

TEST(InterleaveReader, ReadsAllElementsInGrowingChunksAndClosesTheDataset) {
  const Maker ranges = maker();
  ReaderQueue queue = queue_of(100);
  std::int64_t expected = 0;
  std::size_t longest = 0;
  ReaderQueue::Chunk chunk;
  do {
    chunk = Reader(ranges).read(queue);
    longest = std::max(longest, chunk.results.size());
    for (const auto& result : chunk.results) ASSERT_EQ(result.element, expected++);
  } while (chunk.end == ReaderQueue::End::kNotYet);
  EXPECT_EQ(chunk.end, ReaderQueue::End::kExhausted);
  EXPECT_EQ(expected, 100);
  EXPECT_LE(longest, 16U);
  EXPECT_FALSE(queue.inner.is_open());
}

TEST(InterleaveReader, TakesASnapshotBeforeAChunkEveryFewElements) {
  const Maker ranges = maker();
  const auto dataset = range(200);
  ReaderQueue queue = queue_of(200);
  std::int64_t index = 0;
  std::int64_t snapshot_index = 0;
  while (index < 150) {
    const ReaderQueue::Chunk chunk = Reader(ranges).read(queue);
    if (chunk.snapshot) {
      const auto iterator = dataset.node()->iterator({});
      iterator->restore(*chunk.snapshot);
      ASSERT_EQ(iterator->next(), index) << "the snapshot is before the first result";
      snapshot_index = index;
    }
    index += static_cast<std::int64_t>(chunk.results.size());
    ASSERT_LE(index - snapshot_index, 16 + 16) << "a restore would repeat too much";
  }
}

TEST(InterleaveReader, ADatasetThatCannotBeCreatedIsOneResult) {
  const Maker ranges = maker();
  ReaderQueue queue = queue_of(-1);
  const ReaderQueue::Chunk chunk = Reader(ranges).read(queue);
  EXPECT_EQ(chunk.end, ReaderQueue::End::kNotCreated);
  ASSERT_EQ(chunk.results.size(), 1U);
  EXPECT_TRUE(chunk.results[0].error);
}

TEST(InterleaveReader, AnErrorAfterCancellationIsNotAResult) {
  const concurrency::CancelToken cancel;
  cancel.cancel();
  const Maker ranges = maker({.cancel = cancel});
  ReaderQueue unmade = queue_of(-1);
  EXPECT_EQ(error_of([&] { Reader(ranges).read(unmade); }).code(), ErrorCode::kNotFound);
  Maker breaking = maker({.cancel = cancel});
  breaking.make = [](std::int64_t&&) {
    return range(3)
        .map([](std::int64_t) -> std::int64_t { throw Error(ErrorCode::kDataLoss, "broken"); })
        .node();
  };
  ReaderQueue broken = queue_of(3);
  EXPECT_EQ(error_of([&] { Reader(breaking).read(broken); }).code(), ErrorCode::kDataLoss);
}

}  // namespace
}  // namespace brigade::data::internal
