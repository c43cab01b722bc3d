#include "brigade/data/interleave/interleave_position.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/data/core/position.h"

namespace brigade::data::internal {
namespace {

using Snapshots = std::vector<std::shared_ptr<const InputSnapshot>>;

io::StateTree save_replay_point(const ReplayPoint& point, Snapshots& snapshots) {
  auto snapshot = std::find(snapshots.begin(), snapshots.end(), point.snapshot);
  if (snapshot == snapshots.end()) snapshot = snapshots.insert(snapshot, point.snapshot);
  io::StateTree state;
  state["note"] = static_cast<std::uint64_t>(snapshot - snapshots.begin());
  state["place"] = point.index;
  return state;
}

void check_whole(bool is_whole, const InterleaveShape& shape) {
  check_argument(is_whole, "A saved position of ", shape.name,
                 " is broken: its slots and snapshots do not match");
}

ReplayPoint load_replay_point(const InterleaveShape& shape, const io::StateTree& state,
                              const Snapshots& snapshots) {
  const std::uint64_t snapshot = state.as_uint64("note");
  const std::uint64_t index = state.as_uint64("place");
  check_whole(snapshot < snapshots.size() && snapshots[snapshot]->index <= index, shape);
  return {snapshots[snapshot], index};
}

InnerPosition load_slot(const InterleaveShape& shape, const io::StateTree& state,
                        const Snapshots& snapshots) {
  InnerPosition slot{load_replay_point(shape, state, snapshots), std::nullopt,
                     state.as_uint64("ahead")};
  if (state.has("state")) slot.state = state.at("state");
  return slot;
}

void check_same_cycle(const InterleaveShape& shape, const io::StateTree& state) {
  const std::uint64_t cycle = position_number(state, "cycle_length");
  const std::uint64_t block = position_number(state, "block_length");
  check_argument(cycle == shape.cycle_length && block == shape.block_length,
                 "The position was saved in ", shape.name, " with cycles of ", cycle,
                 " and blocks of ", block, ", not of ", shape.cycle_length, " and ",
                 shape.block_length,
                 ": keep both to resume in the same order, and set the cycle length where the "
                 "number of cores may change");
}

/// No two slots hold the same element, and none one that is still to be read.
void check_elements(const InterleaveShape& shape, const InterleavePosition& position) {
  std::uint64_t least = 0;
  for (const std::size_t slot : position.slots_by_element()) {
    const std::uint64_t index = position.slots[slot]->element.index;
    check_whole(index >= least && index < position.input.index, shape);
    least = index + 1;
  }
}

}  // namespace

std::vector<std::size_t> InterleavePosition::slots_by_element() const {
  std::vector<std::size_t> order;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot]) order.push_back(slot);
  }
  std::ranges::sort(order, {}, [this](std::size_t slot) { return slots[slot]->element.index; });
  return order;
}

io::StateTree save_interleave(const InterleaveShape& shape, const InterleavePosition& position) {
  io::StateTree state = make_position(shape.name, {{"cycle_length", shape.cycle_length},
                                                   {"block_length", shape.block_length},
                                                   {"cycle_index", position.cycle_index},
                                                   {"block_index", position.block_index}});
  Snapshots snapshots;
  state["input_place"] = save_replay_point(position.input, snapshots);
  io::StateTree slots = io::StateTree::list();
  for (const auto& slot : position.slots) {
    io::StateTree saved;
    if (slot) {
      saved = save_replay_point(slot->element, snapshots);
      saved["ahead"] = slot->delivered;
      if (slot->state) saved["state"] = *slot->state;
    }
    slots.push_back(std::move(saved));
  }
  state["slots"] = std::move(slots);
  for (const auto& snapshot : snapshots) {
    io::StateTree saved;
    saved["place"] = snapshot->index;
    saved["state"] = snapshot->state;
    state["notes"].push_back(std::move(saved));
  }
  return state;
}

InterleavePosition load_interleave(const InterleaveShape& shape, const io::StateTree& state) {
  check_position(state, shape.name);
  check_same_cycle(shape, state);
  Snapshots snapshots;
  for (const io::StateTree& snapshot : state.as_list("notes")) {
    snapshots.push_back(std::make_shared<const InputSnapshot>(
        InputSnapshot{snapshot.as_uint64("place"), snapshot.at("state")}));
  }
  InterleavePosition position{.cycle_index = position_number(state, "cycle_index"),
                              .block_index = position_number(state, "block_index"),
                              .input = load_replay_point(shape, state.at("input_place"), snapshots),
                              .slots = {}};
  for (const io::StateTree& slot : state.as_list("slots")) {
    auto& loaded = position.slots.emplace_back();
    if (!slot.is_null()) loaded = load_slot(shape, slot, snapshots);
  }
  check_whole(position.slots.size() == shape.cycle_length &&
                  position.cycle_index < shape.cycle_length &&
                  position.block_index < shape.block_length,
              shape);
  check_elements(shape, position);
  return position;
}

}  // namespace brigade::data::internal
