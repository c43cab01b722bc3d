#include "brigade/distribute/input/piece_iterator.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;
using Pieces = std::vector<Numbers>;

/// The numbers up to `count` in batches, as pieces.
PieceIterator pieces_of(std::int64_t count, std::int64_t batch, PieceSizes sizes) {
  const auto batches = input::from_tensor_slices(at::arange(count)).batch(batch);
  const auto node = std::make_shared<AnyNode<at::Tensor>>(batches.node());
  return {kBatchOps<at::Tensor>, data::Iterator<std::any>(node, {}), std::move(sizes)};
}

/// Pieces of at most `most` examples each; only the last one is smaller.
PieceSizes at_most(std::int64_t most) {
  return [most](std::int64_t size, std::int64_t) {
    Numbers sizes;
    for (; size > 0; size -= sizes.back()) sizes.push_back(std::min(size, most));
    return sizes;
  };
}

Pieces rest_of(PieceIterator& iterator) {
  Pieces pieces;
  while (const std::optional<std::any> piece = iterator.next()) {
    const at::Tensor values = std::any_cast<const at::Tensor&>(*piece).contiguous();
    const auto* first = values.const_data_ptr<std::int64_t>();
    pieces.emplace_back(first, first + values.numel());
  }
  return pieces;
}

TEST(PieceIterator, GivesBatchesInPieces) {
  auto pieces = pieces_of(7, 4, at_most(3));
  EXPECT_EQ(rest_of(pieces), (Pieces{{0, 1, 2}, {3}, {4, 5, 6}}));
  EXPECT_FALSE(pieces.next().has_value());
  pieces.start_next_epoch();
  EXPECT_EQ(pieces.epoch(), 1u);
  EXPECT_EQ(rest_of(pieces).size(), 3u);
}

TEST(PieceIterator, WithoutSizesPiecesAreBatches) {
  auto pieces = pieces_of(5, 4, nullptr);
  EXPECT_EQ(rest_of(pieces), (Pieces{{0, 1, 2, 3}, {4}}));
}

TEST(PieceIterator, KnowsTheLargestBatchOfTheEpoch) {
  std::vector<std::pair<std::int64_t, std::int64_t>> asked;
  auto pieces = pieces_of(6, 4, [&](std::int64_t size, std::int64_t full) {
    asked.emplace_back(size, full);
    return Numbers{size, 0};
  });
  EXPECT_EQ(rest_of(pieces), (Pieces{{0, 1, 2, 3}, {}, {4, 5}, {}}));
  EXPECT_EQ(asked, (decltype(asked){{4, 4}, {2, 4}}));
}

TEST(PieceIterator, ResumesBetweenAnyTwoPieces) {
  for (std::size_t taken = 0; taken <= 7; ++taken) {
    auto pieces = pieces_of(11, 5, at_most(2));
    for (std::size_t i = 0; i < taken; ++i) pieces.next();
    auto again = pieces_of(11, 5, at_most(2));
    again.next();
    again.restore(pieces.save());
    EXPECT_EQ(rest_of(again), rest_of(pieces)) << "after " << taken;
  }
}

TEST(PieceIterator, SplitsTheRestOfABatchInANewWay) {
  auto pieces = pieces_of(11, 5, at_most(2));
  pieces.next();
  pieces.next();  // 0 to 3
  auto again = pieces_of(11, 5, at_most(3));
  again.restore(pieces.save());
  EXPECT_EQ(rest_of(again), (Pieces{{4}, {5, 6, 7}, {8, 9}, {10}}));
}

TEST(PieceIterator, RefusesAPositionWithinABatchWhereBatchesAreWhole) {
  auto pieces = pieces_of(11, 5, at_most(2));
  pieces.next();
  const io::StateTree within = pieces.save();
  auto whole = pieces_of(11, 5, nullptr);
  EXPECT_TRUE(mentions(error_from([&] { whole.restore(within); }), "within a batch"));
  EXPECT_EQ(rest_of(whole).size(), 3u) << "a refused restore must change nothing";
  auto other_data = pieces_of(0, 5, at_most(2));
  EXPECT_EQ(error_from([&] { other_data.restore(within); }).code(), ErrorCode::kInvalidArgument);
  auto at_border = pieces_of(11, 5, at_most(5));
  at_border.next();
  whole = pieces_of(11, 5, nullptr);
  whole.restore(at_border.save());
  EXPECT_EQ(rest_of(whole).size(), 2u);
}

}  // namespace
}  // namespace brigade::distribute
