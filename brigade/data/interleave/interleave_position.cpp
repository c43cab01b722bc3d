#include "brigade/data/interleave/interleave_position.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/position.h"

namespace brigade::data::internal {
namespace {

using Notes = std::vector<std::shared_ptr<const InputSnapshot>>;

io::StateTree save_place(const ReplayPoint& place, Notes& notes) {
  auto note = std::find(notes.begin(), notes.end(), place.note);
  if (note == notes.end()) note = notes.insert(note, place.note);
  io::StateTree state;
  state["note"] = static_cast<std::uint64_t>(note - notes.begin());
  state["place"] = place.place;
  return state;
}

void check_whole(bool is_whole, const InterleaveShape& shape) {
  check_argument(is_whole, base::str_cat("A saved position of ", shape.name,
                                         " is broken: its slots and notes do not fit together"));
}

ReplayPoint load_place(const InterleaveShape& shape, const io::StateTree& state,
                      const Notes& notes) {
  const std::uint64_t note = state.as_uint64("note");
  const std::uint64_t place = state.as_uint64("place");
  check_whole(note < notes.size() && notes[note]->place <= place, shape);
  return {notes[note], place};
}

InnerPosition load_slot(const InterleaveShape& shape, const io::StateTree& state,
                        const Notes& notes) {
  InnerPosition slot{load_place(shape, state, notes), std::nullopt, state.as_uint64("ahead")};
  if (state.has("state")) slot.state = state.at("state");
  return slot;
}

void check_same_cycle(const InterleaveShape& shape, const io::StateTree& state) {
  const std::uint64_t cycle = position_number(state, "cycle_length");
  const std::uint64_t block = position_number(state, "block_length");
  if (cycle == shape.cycle_length && block == shape.block_length) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The position was saved in ", shape.name, " with cycles of ", cycle,
                            " and blocks of ", block, ", not of ", shape.cycle_length, " and ",
                            shape.block_length,
                            ": keep both to go on in the same order, and set the cycle length "
                            "where the number of cores may change"));
}

/// No two slots hold the same element, and none one that is still to be read.
void check_elements(const InterleaveShape& shape, const InterleavePosition& position) {
  std::uint64_t least = 0;
  for (const std::size_t slot : position.slots_by_element()) {
    const std::uint64_t place = position.slots[slot]->element.place;
    check_whole(place >= least && place < position.input.place, shape);
    least = place + 1;
  }
}

}  // namespace

std::vector<std::size_t> InterleavePosition::slots_by_element() const {
  std::vector<std::size_t> order;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot]) order.push_back(slot);
  }
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return slots[a]->element.place < slots[b]->element.place;
  });
  return order;
}

io::StateTree save_interleave(const InterleaveShape& shape, const InterleavePosition& position) {
  io::StateTree state = make_position(shape.name, {{"cycle_length", shape.cycle_length},
                                                   {"block_length", shape.block_length},
                                                   {"cycle_index", position.cycle_index},
                                                   {"block_index", position.block_index}});
  Notes notes;
  state["input_place"] = save_place(position.input, notes);
  io::StateTree slots = io::StateTree::list();
  for (const auto& slot : position.slots) {
    io::StateTree saved;
    if (slot) {
      saved = save_place(slot->element, notes);
      saved["ahead"] = slot->delivered;
      if (slot->state) saved["state"] = *slot->state;
    }
    slots.push_back(std::move(saved));
  }
  state["slots"] = std::move(slots);
  for (const auto& note : notes) {
    io::StateTree saved;
    saved["place"] = note->place;
    saved["state"] = note->state;
    state["notes"].push_back(std::move(saved));
  }
  return state;
}

InterleavePosition load_interleave(const InterleaveShape& shape, const io::StateTree& state) {
  check_position(state, shape.name);
  check_same_cycle(shape, state);
  Notes notes;
  for (const io::StateTree& note : state.as_list("notes")) {
    notes.push_back(
        std::make_shared<const InputSnapshot>(InputSnapshot{note.as_uint64("place"), note.at("state")}));
  }
  InterleavePosition position{.cycle_index = position_number(state, "cycle_index"),
                              .block_index = position_number(state, "block_index"),
                              .input = load_place(shape, state.at("input_place"), notes),
                              .slots = {}};
  for (const io::StateTree& slot : state.as_list("slots")) {
    auto& loaded = position.slots.emplace_back();
    if (!slot.is_null()) loaded = load_slot(shape, slot, notes);
  }
  check_whole(position.slots.size() == shape.cycle_length &&
                  position.cycle_index < shape.cycle_length &&
                  position.block_index < shape.block_length,
              shape);
  check_elements(shape, position);
  return position;
}

}  // namespace brigade::data::internal
