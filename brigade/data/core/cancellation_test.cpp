// Every step passes the cancel token to its input: cancelling ends a wait in any of them.
#include <gtest/gtest.h>

#include <string>

#include "brigade/data/sources/counter.h"
#include "brigade/data/sources/files.h"
#include "brigade/data/sources/from_generator.h"
#include "brigade/data/sources/saved_elements.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/transforms/choose_from_datasets.h"
#include "brigade/data/transforms/sample_from_datasets.h"
#include "brigade/data/transforms/zip.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the test helpers
using Number = std::int64_t;
using NumberDataset = Dataset<Number>;
using NumberLists = std::vector<Number>;

const auto kIdentity = [](Number x) { return x; };
const auto kAny = [](const Number&) { return true; };
NumberLists list_of(Number x) {
  return {x, x};
}

TEST(Cancellation, EndsAWaitInStepsThatForwardElements) {
  expect_cancels([](const NumberDataset& source) { return source.filter(kAny); });
  expect_cancels([](const NumberDataset& source) { return source.take(50); });
  expect_cancels([](const NumberDataset& source) { return source.take_while(kAny); });
  expect_cancels([](const NumberDataset& source) { return source.skip(5); });
  expect_cancels([](const NumberDataset& source) { return source.shard(2, 0); });
  expect_cancels([](const NumberDataset& source) { return source.shard_hint(); });
  expect_cancels([](const NumberDataset& source) { return source.enumerate(); });
  expect_cancels([](const NumberDataset& source) { return source.unique(); });
  expect_cancels([](const NumberDataset& source) { return source.ignore_errors(); });
  expect_cancels([](const NumberDataset& source) { return source.assert_cardinality(100); });
  expect_cancels([](const NumberDataset& source) { return source.repeat(2); });
  expect_cancels([](const NumberDataset& source) { return source.shuffle(5); });
  expect_cancels([](const NumberDataset& source) {
    return source.scan(Number{0}, [](Number sum, Number x) { return std::pair(sum + x, x); });
  });
  expect_cancels([](const NumberDataset& source) {
    return source.rejection_resample([](const Number& x) { return x % 2; }, {0.5, 0.5});
  });
}

TEST(Cancellation, EndsAWaitInStepsThatCollectElements) {
  expect_cancels([](const NumberDataset& source) { return source.batch(4); });
  expect_cancels([](const NumberDataset& source) { return source.batch(4).unbatch(); });
  expect_cancels([](const NumberDataset& source) { return source.batch(4).rebatch(3); });
  expect_cancels([](const NumberDataset& source) { return source.map(list_of).padded_batch(4); });
  expect_cancels([](const NumberDataset& source) {
    return source.map(list_of).bucket_by_sequence_length(
        {.length = [](const NumberLists& list) { return static_cast<Number>(list.size()); },
         .boundaries = {5},
         .batch_sizes = {30, 1}});
  });
  expect_cancels([](const NumberDataset& source) {
    return source.group_by_window(
        [](Number x) { return x % 2; },
        [](Number, const NumberDataset& window) { return window.batch(9); }, 9);
  });
  expect_cancels([](const NumberDataset& source) {
    return source.window(4).flat_map([](const NumberDataset& window) { return window; });
  });
}

TEST(Cancellation, EndsAWaitInStepsThatCombineDatasets) {
  expect_cancels([](const NumberDataset& source) { return zip(range(100), source); });
  expect_cancels([](const NumberDataset& source) { return range(3).concatenate(source); });
  expect_cancels([](const NumberDataset& source) { return source.concatenate(range(3)); });
  expect_cancels([](const NumberDataset& source) {
    return sample_from_datasets<Number>({source, range(100)}, {0.9, 0.1});
  });
  expect_cancels([](const NumberDataset& source) {
    return choose_from_datasets<Number>({range(50), source},
                                        range(100).map([](Number x) { return x % 2; }));
  });
  expect_cancels([](const NumberDataset& source) {
    return choose_from_datasets<Number>({range(100)}, source.map([](Number) { return Number{0}; }));
  });
}

TEST(Cancellation, EndsAWaitInStepsThatOpenDatasets) {
  const auto inside = [](const NumberDataset& source) {
    return [source](Number) { return source; };
  };
  expect_cancels(
      [](const NumberDataset& source) { return source.flat_map([](Number) { return range(2); }); });
  expect_cancels([&](const NumberDataset& source) { return range(3).flat_map(inside(source)); });
  for (const std::int64_t threads : {1, 3}) {
    const InterleaveOptions options{.cycle_length = 2, .parallelism = threads};
    expect_cancels([&](const NumberDataset& source) {
      return source.interleave([](Number) { return range(2); }, options);
    });
    expect_cancels(
        [&](const NumberDataset& source) { return range(3).interleave(inside(source), options); });
  }
  expect_cancels([](const NumberDataset& source) {
    return from_files<Number>({"a", "b"}, [source](const io::Path&) { return source; });
  });
}

TEST(Cancellation, EndsAWaitInCaches) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  expect_cancels([](const NumberDataset& source) { return source.cache(); });
  expect_cancels(
      [&](const NumberDataset& source) { return source.cache("/cache", {.file_system = files}); });
  expect_cancels([&](const NumberDataset& source) {
    return source.snapshot("/snapshot", {.file_system = files});
  });
}

// These sources never wait; another input does.
TEST(Cancellation, EndsAWaitNextToSourcesThatNeverWait) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  save(range(100), "/saved", {.file_system = files});
  expect_cancels(
      [&](const NumberDataset& source) { return zip(load<Number>("/saved", files), source); });
  expect_cancels([](const NumberDataset& source) {
    const auto made = from_generator<Number>(
        [] { return [x = Number{0}]() mutable { return std::optional<Number>(x++); }; });
    return zip(made, source.map(kIdentity, {.parallelism = 2}));
  });
}

/// Cancelling ends an iteration that never waits, while it searches for an element in an infinite
/// input.
template <class F>
void expect_search_cancels(F transform) {
  const concurrency::CancelToken token;
  const auto endless = counter().map([token](Number x) {
    if (x == 1000) token.cancel();
    if (x == 100'000) throw Error(ErrorCode::kDeadlineExceeded, "it does not end");
    return x;
  });
  auto iterator = transform(endless).iterator({.cancel = token});
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kCancelled);
}

TEST(Cancellation, EndsASearchThatFindsNothing) {
  const auto none = [](Number) { return false; };
  expect_search_cancels([&](const NumberDataset& source) { return source.filter(none); });
  expect_search_cancels([&](const NumberDataset& source) { return source.filter(none).skip(5); });
  expect_search_cancels(
      [](const NumberDataset& source) { return source.flat_map([](Number) { return range(0); }); });
  expect_search_cancels([](const NumberDataset& source) {
    return source.map([](Number) { return NumberLists(); }).unbatch();
  });
  expect_search_cancels([](const NumberDataset& source) {
    return source.interleave([](Number) { return range(0); }, {.cycle_length = 2});
  });
  expect_search_cancels([](const NumberDataset& source) {
    return source.group_by_window(
        [](Number x) { return x; },
        [](Number, const NumberDataset& window) { return window.batch(9); }, 9);
  });
}

}  // namespace
}  // namespace brigade::data
