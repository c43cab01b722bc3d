#include "brigade/data/core/consumer_position.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "brigade/base/error.h"
#include "brigade/data/core/position.h"

namespace brigade::data {
namespace {

/// A state that records its index.
io::StateTree taken_at(std::uint64_t index) {
  io::StateTree state;
  state["taken_at"] = index;
  return state;
}
std::uint64_t snapshot_of(const ConsumerPosition& position) {
  return position.snapshot().as_uint64("taken_at");
}
ConsumerPosition at_start() {
  return ConsumerPosition(taken_at(0));
}

/// "2+3 early 7-9": the snapshot index, elements delivered right after it, and later ones.
std::string text_of(const io::StateTree& state) {
  EXPECT_EQ(position_input(state).as_uint64("taken_at"), position_number(state, "place"));
  std::string text = std::to_string(position_number(state, "place")) + "+" +
                     std::to_string(position_number(state, "ahead"));
  const IndexSet early = load_index_set(state);
  for (const IndexSet::Range& range : early.ranges()) {
    text += " early " + std::to_string(range.begin) + "-" + std::to_string(range.end);
  }
  return text;
}
std::string saved(const ConsumerPosition& position, std::uint64_t begin = 0,
                  std::uint64_t end = 0) {
  return text_of(position.save("test", begin, end));
}

TEST(ConsumerPosition, APositionIsTheLastSnapshotBeforeWhichAllIsDelivered) {
  ConsumerPosition position = at_start();
  EXPECT_EQ(saved(position), "0+0");
  position.add_snapshot(4, taken_at(4));
  position.add_snapshot(8, taken_at(8));
  position.mark_delivered(0, 3);
  EXPECT_EQ(saved(position), "0+3");
  EXPECT_EQ(snapshot_of(position), 0U);
  position.mark_delivered(3, 4);
  EXPECT_EQ(saved(position), "4+0");
  EXPECT_EQ(snapshot_of(position), 4U);
  position.mark_delivered(4, 10);
  EXPECT_EQ(saved(position), "8+2");
  position.add_snapshot(10, taken_at(10));
  EXPECT_EQ(saved(position), "10+0");
}

TEST(ConsumerPosition, SavingWithMoreElementsDoesNotMoveTheSnapshot) {
  ConsumerPosition position = at_start();
  position.add_snapshot(4, taken_at(4));
  position.mark_delivered(0, 2);
  EXPECT_EQ(saved(position, 2, 5), "4+1");
  EXPECT_EQ(snapshot_of(position), 0U);
  EXPECT_EQ(saved(position), "0+2");
}

TEST(ConsumerPosition, ElementsDeliveredEarlyAreListed) {
  ConsumerPosition position = at_start();
  position.add_snapshot(4, taken_at(4));
  position.mark_delivered(0, 1);
  position.mark_delivered(3, 5);
  EXPECT_EQ(saved(position, 7, 9), "0+1 early 3-5 early 7-9");
  EXPECT_EQ(snapshot_of(position), 0U) << "element 1 is not delivered yet";
  position.mark_delivered(1, 3);
  EXPECT_EQ(saved(position, 7, 9), "4+1 early 7-9");
}

TEST(ConsumerPosition, PendingSnapshotsCanBeDropped) {
  ConsumerPosition position = at_start();
  position.add_snapshot(4, taken_at(4));
  position.drop_pending();
  position.mark_delivered(0, 6);
  EXPECT_EQ(saved(position), "0+6");
}

TEST(ConsumerPosition, SkipsElementsThatAreNotDelivered) {
  ConsumerPosition position = at_start();
  position.mark_delivered(0, 2);
  position.mark_delivered(4, 6);
  std::uint64_t input = 0;
  const auto skip_in = [&input](std::uint64_t size) {
    return [&input, size](std::uint64_t count) {
      const std::uint64_t done = std::min(count, size - input);
      input += done;
      return done;
    };
  };
  EXPECT_EQ(position.skip_undelivered(0, skip_in(100)), 0U);
  EXPECT_EQ(input, 2U);
  EXPECT_EQ(position.skip_undelivered(3, skip_in(100)), 3U) << "2, 3 and 6";
  EXPECT_EQ(input, 7U);
  EXPECT_EQ(position.snapshot_index(), 7U);
  EXPECT_EQ(position.skip_undelivered(9, skip_in(10)), 3U) << "the input ends";
  position.set_snapshot(taken_at(10));
  EXPECT_EQ(saved(position), "10+0");
}

TEST(ConsumerPosition, LoadsWhatItSaved) {
  ConsumerPosition position = at_start();
  position.add_snapshot(4, taken_at(4));
  position.mark_delivered(0, 5);
  position.mark_delivered(7, 9);
  ConsumerPosition loaded = at_start();
  loaded.add_snapshot(2, taken_at(2));
  loaded.load("test", position.save("test", 11, 12));
  EXPECT_EQ(saved(loaded), "4+1 early 7-9 early 11-12");
  EXPECT_EQ(snapshot_of(loaded), 4U);
  loaded.mark_delivered(5, 7);
  EXPECT_EQ(saved(loaded), "4+5 early 11-12");
}

TEST(ConsumerPosition, RefusesForeignAndBrokenStatesAndDoesNotChange) {
  ConsumerPosition position = at_start();
  position.mark_delivered(0, 3);
  io::StateTree broken = position.save("test", 5, 6);
  broken["place"] = std::uint64_t{6};
  EXPECT_THROW(position.load("test", broken), Error);
  EXPECT_THROW(position.load("other", position.save("test", 5, 6)), Error);
  EXPECT_THROW(position.load("test", make_position("test", {{"place", 4}})), Error);
  EXPECT_EQ(saved(position), "0+3");
}

}  // namespace
}  // namespace brigade::data
