#include "brigade/distribute/input/piece_iterator.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/input/tensor_structure.h"

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;

PieceIterator<at::Tensor> iterate_over(std::int64_t count, std::int64_t batch, PieceSizes sizes) {
  return {input::from_tensor_slices(at::arange(count)).batch(batch).iterator(), std::move(sizes)};
}

/// Pieces of at most `most` examples each; only the last one is smaller.
PieceSizes pieces_of(std::int64_t most) {
  return [most](std::int64_t size, std::int64_t) {
    Numbers sizes;
    for (; size > 0; size -= sizes.back()) sizes.push_back(std::min(size, most));
    return sizes;
  };
}

std::vector<Numbers> rest_of(PieceIterator<at::Tensor>& iterator) {
  std::vector<Numbers> pieces;
  while (const auto piece = iterator.next()) {
    const auto* first = piece->const_data_ptr<std::int64_t>();
    pieces.emplace_back(first, first + piece->numel());
  }
  return pieces;
}

TEST(PieceIterator, GivesBatchesInPieces) {
  auto iterator = iterate_over(7, 4, pieces_of(3));
  EXPECT_EQ(rest_of(iterator), (std::vector<Numbers>{{0, 1, 2}, {3}, {4, 5, 6}}));
  EXPECT_FALSE(iterator.next().has_value());
  iterator.start_next_epoch();
  EXPECT_EQ(iterator.epoch(), 1u);
  EXPECT_EQ(rest_of(iterator).size(), 3u);
}

TEST(PieceIterator, WithoutSizesPiecesAreBatches) {
  auto iterator = iterate_over(5, 4, nullptr);
  EXPECT_EQ(rest_of(iterator), (std::vector<Numbers>{{0, 1, 2, 3}, {4}}));
}

TEST(PieceIterator, KnowsTheLargestBatchOfTheEpoch) {
  std::vector<std::pair<std::int64_t, std::int64_t>> asked;
  auto iterator = iterate_over(6, 4, [&](std::int64_t size, std::int64_t full) {
    asked.emplace_back(size, full);
    return Numbers{size, 0};
  });
  EXPECT_EQ(rest_of(iterator), (std::vector<Numbers>{{0, 1, 2, 3}, {}, {4, 5}, {}}));
  EXPECT_EQ(asked, (decltype(asked){{4, 4}, {2, 4}}));
}

TEST(PieceIterator, ResumesBetweenAnyTwoPieces) {
  for (std::size_t taken = 0; taken <= 7; ++taken) {
    auto iterator = iterate_over(11, 5, pieces_of(2));
    for (std::size_t i = 0; i < taken; ++i) iterator.next();
    auto again = iterate_over(11, 5, pieces_of(2));
    again.next();
    again.restore(iterator.save());
    EXPECT_EQ(rest_of(again), rest_of(iterator)) << "after " << taken;
  }
}

TEST(PieceIterator, SplitsTheRestOfABatchInANewWay) {
  auto iterator = iterate_over(11, 5, pieces_of(2));
  iterator.next();
  iterator.next();  // 0 to 3
  auto again = iterate_over(11, 5, pieces_of(3));
  again.restore(iterator.save());
  EXPECT_EQ(rest_of(again), (std::vector<Numbers>{{4}, {5, 6, 7}, {8, 9}, {10}}));
}

TEST(PieceIterator, RefusesAPositionWithinABatchWhereBatchesAreWhole) {
  auto iterator = iterate_over(11, 5, pieces_of(2));
  iterator.next();
  const io::StateTree within = iterator.save();
  auto whole = iterate_over(11, 5, nullptr);
  EXPECT_TRUE(mentions(error_from([&] { whole.restore(within); }), "within a batch"));
  EXPECT_EQ(rest_of(whole).size(), 3u) << "a refused restore must change nothing";
  auto other_data = iterate_over(0, 5, pieces_of(2));
  EXPECT_EQ(error_from([&] { other_data.restore(within); }).code(), ErrorCode::kInvalidArgument);
  auto at_border = iterate_over(11, 5, pieces_of(5));
  at_border.next();
  whole = iterate_over(11, 5, nullptr);
  whole.restore(at_border.save());
  EXPECT_EQ(rest_of(whole).size(), 2u);
}

}  // namespace
}  // namespace brigade::distribute
