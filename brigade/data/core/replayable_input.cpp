#include "brigade/data/core/replayable_input.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/position.h"

namespace brigade::data::internal {

io::StateTree save_replay_point(const ReplayPoint& point) {
  io::StateTree state;
  state["note"] = point.snapshot->index;
  state["place"] = point.index;
  state["input"] = point.snapshot->state;
  return state;
}

ReplayPoint load_replay_point(const io::StateTree& state) {
  const std::uint64_t snapshot = state.as_uint64("note");
  const std::uint64_t index = state.as_uint64("place");
  check_argument(snapshot <= index, "A saved position is broken: its element ", index,
                 " comes before its snapshot at element ", snapshot);
  return {std::make_shared<const InputSnapshot>(InputSnapshot{snapshot, state.at("input")}), index};
}

void throw_replay_past_end(std::uint64_t index) {
  throw_data_too_short(base::str_cat("The saved position is after element ", index,
                                     " of an input that now has fewer"));
}

}  // namespace brigade::data::internal
