#include "brigade/data/transforms/bucket_by_sequence_length.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;
using Options = BucketOptions<Numbers>;

std::int64_t length_of(const Numbers& numbers) {
  return static_cast<std::int64_t>(numbers.size());
}

TEST(BucketBySequenceLength, MatchesTensorFlow) {
  const Table table("windows");
  const auto lists = number_lists();
  expect_matches_table(table, "lists.bucket([3, 5], [2, 2, 2])",
                       lists.bucket_by_sequence_length(
                           {.length = length_of, .boundaries = {3, 5}, .batch_sizes = {2, 2, 2}}));
  expect_matches_table(table, "lists.bucket([3, 5], [3, 1, 2], drop_remainder)",
                       lists.bucket_by_sequence_length({.length = length_of,
                                                        .boundaries = {3, 5},
                                                        .batch_sizes = {3, 1, 2},
                                                        .remainder = Remainder::kDrop}));
  expect_matches_table(table, "lists.bucket([3, 5, 9], [2, 2, 2, 2], to boundary, -1)",
                       lists.bucket_by_sequence_length({.length = length_of,
                                                        .boundaries = {3, 5, 9},
                                                        .batch_sizes = {2, 2, 2, 2},
                                                        .pad = BucketPadding::kToBoundary,
                                                        .padding = {.value = -1}}));
  expect_matches_table(table, "lists.bucket([4], [2, 3], [9])",
                       lists.bucket_by_sequence_length({.length = length_of,
                                                        .boundaries = {4},
                                                        .batch_sizes = {2, 3},
                                                        .padding = {.length = 9}}));
}

TEST(BucketBySequenceLength, LeavesElementsAsTheyAreIfAsked) {
  const auto buckets = number_lists().take(4).bucket_by_sequence_length(
      {.length = length_of, .boundaries = {3}, .batch_sizes = {2, 2}, .pad = BucketPadding::kOff});
  expect_contract(buckets, {{{1}, {2, 2}}, {{6, 6, 6, 6, 6, 6}, {4, 4, 4, 4}}}, Length::kUnknown);
}

TEST(BucketBySequenceLength, WithoutBoundariesIsPaddedBatch) {
  const auto lists = number_lists();
  expect_contract(lists.bucket_by_sequence_length({.length = length_of, .batch_sizes = {3}}),
                  epoch_of(lists.padded_batch(3)), Length::kUnknown);
}

TEST(BucketBySequenceLength, AnElementBeyondTheLastBoundaryFailsAlone) {
  const auto buckets =
      number_lists().take(5).bucket_by_sequence_length({.length = length_of,
                                                        .boundaries = {3, 5},
                                                        .batch_sizes = {2, 2, 2},
                                                        .pad = BucketPadding::kToBoundary});
  EXPECT_EQ(
      with_errors_as<std::vector<Numbers>>({}, buckets),
      (std::vector<std::vector<Numbers>>{{}, {{1, 0}, {2, 2}}, {{4, 4, 4, 4}, {3, 3, 3, 0}}}));
  auto iterator = buckets.iterator();
  expect_invalid_argument([&] { iterator.next(); }, "length 6 has no boundary");
  auto skipping = buckets.node()->iterator({});
  EXPECT_EQ(skipping->skip(2), 2U);
  EXPECT_EQ(skipping->next()->at(0).at(0), 4);
}

TEST(BucketBySequenceLength, AnElementWhoseLengthFunctionThrowsFailsAlone) {
  const auto dataset =
      range(5)
          .map([](std::int64_t x) { return std::vector<std::int64_t>(2, x); })
          .bucket_by_sequence_length(
              {.length = [](const std::vector<std::int64_t>& list) -> std::int64_t {
                 if (list[0] == 1) throw std::runtime_error("no length");
                 return 2;
               },
               .boundaries = {},
               .batch_sizes = {4}});
  auto iterator = dataset.iterator();
  const Error error = error_of([&] { iterator.next(); });
  EXPECT_EQ(error.code(), ErrorCode::kAborted);
  EXPECT_NE(std::string(error.what()).find("element 1 of epoch 0: no length"), std::string::npos)
      << error.what();
  using Rows = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(iterator.next(), (Rows{{0, 0}, {2, 2}, {3, 3}, {4, 4}}));
}

TEST(BucketBySequenceLength, RefusesBucketsThatCannotBe) {
  const auto make = [](Options options) {
    return [options] { number_lists().bucket_by_sequence_length(options); };
  };
  expect_invalid_argument(
      make({.length = length_of, .boundaries = {5, 3}, .batch_sizes = {1, 1, 1}}),
      "boundary 3 comes after 5; boundaries must ascend");
  expect_invalid_argument(make({.length = length_of, .boundaries = {3}, .batch_sizes = {1}}),
                          "1 batch sizes for 1 boundaries");
  expect_invalid_argument(make({.length = length_of, .boundaries = {3}, .batch_sizes = {1, 0}}),
                          "a batch size is 0");
  expect_invalid_argument(make({.boundaries = {3}, .batch_sizes = {1, 1}}), "length is not set");
}

TEST(BucketBySequenceLength, DescribesItself) {
  const Options options{.length = length_of,
                        .boundaries = {3},
                        .batch_sizes = {2, 1},
                        .pad = BucketPadding::kToBoundary,
                        .padding = {.value = -1},
                        .remainder = Remainder::kDrop};
  EXPECT_EQ(number_lists().bucket_by_sequence_length(options).describe(),
            "from_generator | bucket_by_sequence_length([3], [2, 1], to boundary, with -1, without "
            "remainder)");
}

}  // namespace
}  // namespace brigade::data
