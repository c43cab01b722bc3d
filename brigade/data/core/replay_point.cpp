#include "brigade/data/core/input_place.h"

#include <memory>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {

io::StateTree save_place(const InputPlace& place) {
  io::StateTree state;
  state["note"] = place.note->place;
  state["place"] = place.place;
  state["input"] = place.note->state;
  return state;
}

InputPlace load_place(const io::StateTree& state) {
  const std::uint64_t note = state.as_uint64("note");
  const std::uint64_t place = state.as_uint64("place");
  check_argument(note <= place,
                 base::str_cat("A saved position is broken: it lies at element ", place,
                               ", before element ", note, ", from which it is told"));
  return {std::make_shared<const InputNote>(InputNote{note, state.at("input")}), place};
}

}  // namespace brigade::data::internal
