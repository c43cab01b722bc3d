#include "brigade/data/core/index_set.h"

#include <gtest/gtest.h>

#include <limits>

#include "brigade/base/error.h"

namespace brigade::data {
namespace {

using Ranges = std::vector<IndexSet::Range>;

Ranges ranges_of(const IndexSet& indices) {
  return Ranges(indices.ranges().begin(), indices.ranges().end());
}

TEST(IndexSet, JoinsAdjacentRanges) {
  IndexSet indices;
  indices.add(4, 6);
  indices.add(0, 2);
  indices.add(8, 9);
  indices.add(3, 3);
  EXPECT_EQ(ranges_of(indices), (Ranges{{0, 2}, {4, 6}, {8, 9}}));
  indices.add(6, 8);
  EXPECT_EQ(ranges_of(indices), (Ranges{{0, 2}, {4, 9}}));
  indices.add(3, 4);
  EXPECT_EQ(ranges_of(indices), (Ranges{{0, 2}, {3, 9}}));
  indices.add(2, 3);
  EXPECT_EQ(ranges_of(indices), (Ranges{{0, 9}}));
}

TEST(IndexSet, FindsRunsAndGaps) {
  IndexSet indices;
  EXPECT_EQ(indices.end_of_run(3), 3U);
  EXPECT_EQ(indices.next_begin(3), std::numeric_limits<std::uint64_t>::max());
  indices.add(2, 5);
  indices.add(7, 8);
  EXPECT_EQ(indices.end_of_run(1), 1U);
  EXPECT_EQ(indices.end_of_run(2), 5U);
  EXPECT_EQ(indices.end_of_run(5), 5U);
  EXPECT_EQ(indices.next_begin(0), 2U);
  EXPECT_EQ(indices.next_begin(4), 4U);
  EXPECT_EQ(indices.next_begin(5), 7U);
  indices.drop_below(4);
  EXPECT_EQ(ranges_of(indices), (Ranges{{4, 5}, {7, 8}}));
  indices.drop_below(5);
  EXPECT_EQ(ranges_of(indices), (Ranges{{7, 8}}));
}

TEST(IndexSet, CanBeSavedAndLoaded) {
  IndexSet indices;
  io::StateTree state = io::StateTree::dict();
  save_index_set(state, indices);
  EXPECT_EQ(state, io::StateTree::dict()) << "an empty set writes nothing";
  indices.add(3, 4);
  indices.add(9, 12);
  save_index_set(state, indices);
  EXPECT_EQ(ranges_of(load_index_set(state)), ranges_of(indices));
  io::StateTree damaged;
  for (const std::uint64_t index : {5U, 4U}) damaged["early"].push_back(index);
  EXPECT_THROW(load_index_set(damaged), Error);
}

}  // namespace
}  // namespace brigade::data
