#include "brigade/data/transforms/batch.h"

#include <gtest/gtest.h>

#include <tuple>

#include "brigade/data/core/source.h"
#include "brigade/data/testing/dataset_contract.h"
#include "brigade/data/testing/tf_table_expectations.h"

namespace brigade::data {
namespace {

using namespace testing;  // NOLINT: the contract tests
using Numbers = std::vector<std::int64_t>;

TEST(Batch, KeepsTheDatasetContract) {
  expect_contract(range(7).batch(3), {{0, 1, 2}, {3, 4, 5}, {6}});
  expect_contract(range(6).batch(3), {{0, 1, 2}, {3, 4, 5}});
  expect_contract(range(2).batch(3), {{0, 1}});
  expect_contract(range(0).batch(3), {});
}

TEST(Batch, DropsTheRemainderIfAsked) {
  const BatchOptions drop{.remainder = Remainder::kDrop};
  expect_contract(range(7).batch(3, drop), {{0, 1, 2}, {3, 4, 5}});
  expect_contract(range(2).batch(3, drop), {});
}

TEST(Batch, OfBatchesNests) {
  expect_contract(range(5).batch(2).batch(2), {{{0, 1}, {2, 3}}, {{4}}});
}

TEST(Batch, RefusesSizesBelowOne) {
  expect_invalid_argument([] { range(3).batch(0); }, "size is 0; it must be 1 or more");
  expect_invalid_argument([] { range(3).batch(-1); }, "size is -1");
}

TEST(Batch, AHugeSizeTakesWhatThereIs) {
  EXPECT_EQ(epoch_of(range(3).batch(std::int64_t{1} << 62)), (std::vector<Numbers>{{0, 1, 2}}));
}

TEST(Batch, WithAFailedElementFailsAsAWhole) {
  const auto fragile = range(7).map([](std::int64_t x) {
    if (x == 3) throw Error(ErrorCode::kDataLoss, "three is broken");
    return x;
  });
  auto iterator = fragile.batch(3).iterator();
  EXPECT_EQ(iterator.next(), (Numbers{0, 1, 2}));
  EXPECT_EQ(error_of([&] { iterator.next(); }).code(), ErrorCode::kDataLoss);
  EXPECT_EQ(iterator.next(), (Numbers{6}));
  EXPECT_EQ(iterator.next(), std::nullopt);
}

TEST(Batch, KnowsItsCardinality) {
  EXPECT_EQ(range(3).repeat().batch(2).cardinality(), kInfinite);
  EXPECT_EQ(cardinality_of_batch(kUnknown, 2, true), kUnknown);
}

TEST(Batch, AnErrorInADroppedRemainderIsDroppedWithIt) {
  const auto failing = range(10).map([](std::int64_t x) {
    if (x == 8) throw Error(ErrorCode::kDataLoss, "eight");
    return x;
  });
  const auto dropping = failing.batch(4, {.remainder = Remainder::kDrop});
  EXPECT_EQ(epoch_of(dropping), (std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(dropping.node()->iterator({})->skip(100), 2U);
  auto keeping = failing.batch(4).iterator();
  keeping.next();
  keeping.next();
  EXPECT_EQ(error_of([&] { keeping.next(); }).code(), ErrorCode::kDataLoss);
  const auto batches = failing.take(9).batch(3, {.remainder = Remainder::kDrop});
  const auto full = batches.node()->iterator({});
  full->skip(2);
  EXPECT_EQ(error_of([&] { full->next(); }).code(), ErrorCode::kDataLoss);
}

TEST(PaddedBatch, MatchesTensorFlow) {
  const Table table("windows");
  expect_matches_table(table, "lists.padded_batch(3)", number_lists().padded_batch(3));
  expect_matches_table(table, "lists.padded_batch(3, drop_remainder)",
                       number_lists().padded_batch(3, {.remainder = Remainder::kDrop}));
  expect_matches_table(table, "lists.padded_batch(3, [8], -1)",
                       number_lists().padded_batch(3, {.padding = {.length = 8, .value = -1}}));
}

TEST(PaddedBatch, KnowsItsCardinality) {
  const auto lists = from_elements<Numbers>({{1}, {2, 2}, {3}});
  expect_contract(lists.padded_batch(2), {{{1, 0}, {2, 2}}, {{3}}});
}

TEST(PaddedBatch, PadsEachPartOfATuple) {
  using Sentence = std::tuple<std::vector<int>, std::vector<float>, std::int64_t>;
  const auto sentences = from_elements<Sentence>({{{1, 2}, {0.5F}, 7}, {{3}, {1.5F, 2.5F}, 8}});
  const auto batches = sentences.padded_batch(
      2, {.padding = {{.length = 3, .value = -1}, {.length = {}, .value = 9}, {}}});
  auto iterator = batches.iterator();
  const auto batch = iterator.next();
  EXPECT_EQ(std::get<0>(*batch), (std::vector<std::vector<int>>{{1, 2, -1}, {3, -1, -1}}));
  EXPECT_EQ(std::get<1>(*batch), (std::vector<std::vector<float>>{{0.5F, 9}, {1.5F, 2.5F}}));
  EXPECT_EQ(std::get<2>(*batch), (Numbers{7, 8}));
  EXPECT_EQ(batches.describe(),
            "from_elements | padded_batch(2, part 0 (to length 3, with -1), part 1 (with 9))");
}

TEST(PaddedBatch, DescribesTheSamePaddingOfDifferentPartsDifferently) {
  using Lists = std::vector<int>;
  using Both = std::tuple<Lists, Lists>;
  const auto both = from_elements<Both>({{{1}, {2}}});
  EXPECT_NE(both.padded_batch(1, {.padding = {{.length = 8}, {}}}).describe(),
            both.padded_batch(1, {.padding = {{}, {.length = 8}}}).describe());
  EXPECT_NE(both.padded_batch(1, {.padding = {{.length = 8, .value = -1}, {}}}).describe(),
            both.padded_batch(1, {.padding = {{.length = 8}, {.value = -1}}}).describe());

  const auto pairs = from_elements<std::pair<Lists, Lists>>({{{1}, {2}}});
  EXPECT_NE(pairs.padded_batch(1, {.padding = {{.length = 8}, {}}}).describe(),
            pairs.padded_batch(1, {.padding = {{}, {.length = 8}}}).describe());

  using Nested = std::tuple<Both, Lists>;
  const auto nested = from_elements<Nested>({{{{1}, {2}}, {3}}});
  EXPECT_NE(nested.padded_batch(1, {.padding = {{{}, {.length = 8}}, {}}}).describe(),
            nested.padded_batch(1, {.padding = {{{}, {}}, {.length = 8}}}).describe());
}

TEST(PaddedBatch, PadsBothHalvesOfAPair) {
  using Row = std::pair<std::vector<int>, std::int64_t>;
  const auto rows = from_elements<Row>({{{1, 2}, 7}, {{3}, 8}});
  const auto batch = rows.padded_batch(2).iterator().next();
  EXPECT_EQ(batch->first, (std::vector<std::vector<int>>{{1, 2}, {3, 0}}));
  EXPECT_EQ(batch->second, (Numbers{7, 8}));
}

TEST(PaddedBatch, AnElementThatIsTooLongFailsItsBatch) {
  const auto lists = from_elements<Numbers>({{1}, {2, 2, 2}, {3}});
  auto iterator = lists.padded_batch(2, {.padding = {.length = 2}}).iterator();
  expect_invalid_argument([&] { iterator.next(); }, "length 3 cannot be padded to length 2");
  EXPECT_EQ(iterator.next(), (std::vector<Numbers>{{3, 0}}));
}

TEST(PaddedBatch, RefusesWhatCannotBe) {
  expect_invalid_argument([] { number_lists().padded_batch(0); },
                          "padded_batch: size is 0; it must be 1 or more");
  expect_invalid_argument([] { number_lists().padded_batch(2, {.padding = {.length = -1}}); },
                          "length is -1");
}

TEST(PaddedBatch, ItsPositionsAreNotThoseOfBatch) {
  const auto lists = from_elements<Numbers>({{1}, {2}});
  const io::StateTree state = lists.batch(1).node()->iterator({})->save();
  expect_invalid_argument([&] { lists.padded_batch(1).node()->iterator({})->restore(state); },
                          "'padded_batch'");
}

}  // namespace
}  // namespace brigade::data
