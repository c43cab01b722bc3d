#include "brigade/data/core/index_set.h"

#include <gtest/gtest.h>

#include <limits>

#include "brigade/base/error.h"

namespace brigade::data {
namespace {

using Ranges = std::vector<IndexSet::Range>;

Ranges ranges_of(const IndexSet& places) {
  return Ranges(places.ranges().begin(), places.ranges().end());
}

TEST(IndexSet, JoinsWhatTouches) {
  IndexSet places;
  places.add(4, 6);
  places.add(0, 2);
  places.add(8, 9);
  places.add(3, 3);
  EXPECT_EQ(ranges_of(places), (Ranges{{0, 2}, {4, 6}, {8, 9}}));
  places.add(6, 8);
  EXPECT_EQ(ranges_of(places), (Ranges{{0, 2}, {4, 9}}));
  places.add(3, 4);
  EXPECT_EQ(ranges_of(places), (Ranges{{0, 2}, {3, 9}}));
  places.add(2, 3);
  EXPECT_EQ(ranges_of(places), (Ranges{{0, 9}}));
}

TEST(IndexSet, TellsRunsAndGaps) {
  IndexSet places;
  EXPECT_EQ(places.end_of_run(3), 3U);
  EXPECT_EQ(places.next_begin(3), std::numeric_limits<std::uint64_t>::max());
  places.add(2, 5);
  places.add(7, 8);
  EXPECT_EQ(places.end_of_run(1), 1U);
  EXPECT_EQ(places.end_of_run(2), 5U);
  EXPECT_EQ(places.end_of_run(5), 5U);
  EXPECT_EQ(places.next_begin(0), 2U);
  EXPECT_EQ(places.next_begin(4), 4U);
  EXPECT_EQ(places.next_begin(5), 7U);
  places.drop_below(4);
  EXPECT_EQ(ranges_of(places), (Ranges{{4, 5}, {7, 8}}));
  places.drop_below(5);
  EXPECT_EQ(ranges_of(places), (Ranges{{7, 8}}));
}

TEST(IndexSet, GoesThroughAState) {
  IndexSet places;
  io::StateTree state = io::StateTree::dict();
  save_index_set(state, places);
  EXPECT_EQ(state, io::StateTree::dict()) << "an empty set leaves no trace";
  places.add(3, 4);
  places.add(9, 12);
  save_index_set(state, places);
  EXPECT_EQ(ranges_of(load_index_set(state)), ranges_of(places));
  io::StateTree damaged;
  for (const std::uint64_t place : {5U, 4U}) damaged["early"].push_back(place);
  EXPECT_THROW(load_index_set(damaged), Error);
}

}  // namespace
}  // namespace brigade::data
