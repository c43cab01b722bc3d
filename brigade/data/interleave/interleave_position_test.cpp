#include "brigade/data/interleave/interleave_position.h"

#include <gtest/gtest.h>

#include "brigade/data/core/position.h"
#include "brigade/data/testing/dataset_contract.h"

namespace brigade::data::internal {
namespace {

using namespace testing;  // NOLINT: the contract tests

const InterleaveShape kShape{.name = "interleave", .cycle_length = 3, .block_length = 2};

InterleavePosition example_position() {
  const auto snapshot =
      std::make_shared<const InputSnapshot>(InputSnapshot{4, io::StateTree("input at 4")});
  InterleavePosition position{
      .cycle_index = 1, .block_index = 1, .input = {snapshot, 7}, .slots = {}};
  position.slots.emplace_back(InnerPosition{{snapshot, 6}, io::StateTree("inner"), 5});
  position.slots.emplace_back();
  position.slots.emplace_back(InnerPosition{{snapshot, 4}, std::nullopt, 0});
  return position;
}

TEST(InterleavePosition, RoundTripsThroughAFile) {
  const io::StateTree state = save_interleave(kShape, example_position());
  EXPECT_EQ(state.as_list("notes").size(), 1U);  // shared by three positions
  const InterleavePosition loaded = load_interleave(kShape, json_round_trip(state));
  EXPECT_EQ(loaded.cycle_index, 1U);
  EXPECT_EQ(loaded.block_index, 1U);
  EXPECT_EQ(loaded.input.index, 7U);
  EXPECT_EQ(loaded.input.snapshot->state, io::StateTree("input at 4"));
  ASSERT_EQ(loaded.slots.size(), 3U);
  EXPECT_EQ(loaded.slots[0]->element.index, 6U);
  EXPECT_EQ(loaded.slots[0]->state, io::StateTree("inner"));
  EXPECT_EQ(loaded.slots[0]->delivered, 5U);
  EXPECT_FALSE(loaded.slots[1].has_value());
  EXPECT_FALSE(loaded.slots[2]->state.has_value());
  EXPECT_EQ(loaded.slots_by_element(), (std::vector<std::size_t>{2, 0}));
}

TEST(InterleavePosition, RefusesAnotherCycle) {
  const io::StateTree state = save_interleave(kShape, example_position());
  expect_invalid_argument(
      [&] { load_interleave({.name = "interleave", .cycle_length = 4, .block_length = 2}, state); },
      "cycles of 3 and blocks of 2, not of 4 and 2");
  expect_invalid_argument([&] { load_interleave({.name = "flat_map"}, state); }, "interleave");
}

TEST(InterleavePosition, RefusesInvalidStates) {
  const auto refuses = [](auto change) {
    InterleavePosition position = example_position();
    change(position);
    expect_invalid_argument([&] { load_interleave(kShape, save_interleave(kShape, position)); },
                            "is broken");
  };
  refuses([](auto& position) { position.cycle_index = 3; });
  refuses([](auto& position) { position.block_index = 2; });
  refuses([](auto& position) { position.slots.pop_back(); });
  refuses([](auto& position) { position.slots[0]->element.index = 7; });  // still to be read
  refuses([](auto& position) { position.slots[0]->element.index = 4; });  // twice
  refuses([](auto& position) { position.slots[2]->element.index = 3; });  // before its snapshot
  io::StateTree state = save_interleave(kShape, example_position());
  state["input_place"]["note"] = 1U;
  expect_invalid_argument([&] { load_interleave(kShape, state); }, "is broken");
}

}  // namespace
}  // namespace brigade::data::internal
