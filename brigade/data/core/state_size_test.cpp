#include <gtest/gtest.h>

#include "brigade/data/core/source.h"
#include "brigade/data/sources/files.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/io/state_json.h"

namespace brigade::data {
namespace {

using Numbers = std::vector<std::int64_t>;

/// Positions are counts, never elements, whatever the buffers hold.
TEST(StateSize, OfADeepPipelineStaysBelowAFewKilobytes) {
  std::vector<io::Path> paths;
  for (int file = 0; file < 1000; ++file) paths.push_back("data/" + std::to_string(file));
  const auto deep = from_files<std::int64_t>(paths, [](const io::Path&) { return range(100); })
                        .shuffle(10'000)
                        .map([](std::int64_t x) { return x; }, {.parallelism = 2})
                        .cache()
                        .shuffle(10'000)
                        .repeat(2)
                        .batch(128)
                        .map([](Numbers batch) { return batch; }, {.parallelism = 2})
                        .prefetch(8);
  auto iterator = deep.iterator({.seed = ~std::uint64_t{0}, .epoch = 1'000'000});
  for (int i = 0; i < 200; ++i) iterator.next();
  EXPECT_LT(io::stored_bytes(iterator.save()), 2048U);
}

template <class T>
std::size_t size_after(const Dataset<T>& dataset, int elements) {
  auto iterator = dataset.iterator({.seed = ~std::uint64_t{0}});
  for (int i = 0; i < elements; ++i) iterator.next();
  return io::stored_bytes(iterator.save());
}

/// Bytes for each element index that a step saves, and for all else.
constexpr std::size_t kBytesPerElement = 400;
constexpr std::size_t kFixedBytes = 2048;

TEST(StateSize, OfAnInterleaveIsAFewNumbersPerOpenDataset) {
  const auto inner = [](std::int64_t) { return range(10'000).shuffle(1000); };
  for (const std::int64_t threads : {1, 3}) {
    const auto mixed = range(10'000).shuffle(1000).interleave(
        inner, {.cycle_length = 64, .block_length = 3, .parallelism = threads});
    EXPECT_LT(size_after(mixed, 1000), kFixedBytes + 64 * kBytesPerElement) << threads;
  }
}

TEST(StateSize, OfCollectedElementsIsTheirIndices) {
  const auto lists = range(100'000).shuffle(1000).map(
      [](std::int64_t x) { return Numbers(static_cast<std::size_t>(x % 100), x); });
  const auto buckets = lists.bucket_by_sequence_length(
      {.length = [](const Numbers& list) { return static_cast<std::int64_t>(list.size()); },
       .boundaries = {50},
       .batch_sizes = {32, 32}});
  EXPECT_LT(size_after(buckets, 100), kFixedBytes + 64 * kBytesPerElement);
  const auto windows = range(100'000).shuffle(1000).group_by_window(
      [](std::int64_t x) { return x % 4; },
      [](std::int64_t, const Dataset<std::int64_t>& window) { return window.batch(32); }, 32);
  EXPECT_LT(size_after(windows, 100), kFixedBytes + 128 * kBytesPerElement);
}

TEST(StateSize, OfARelaxedStepIsBounded) {
  const auto relaxed = range(100'000).shuffle(1000).map(
      [](std::int64_t x) { return x; }, {.parallelism = 4, .order = Order::kRelaxed});
  EXPECT_LT(size_after(relaxed, 20'000), 2 * kFixedBytes);
}

}  // namespace
}  // namespace brigade::data
