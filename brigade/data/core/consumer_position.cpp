#include "brigade/data/core/noted_places.h"

#include <algorithm>
#include <iterator>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/position.h"

namespace brigade::data {

void NotedPlaces::add_note(std::uint64_t place, io::StateTree state) {
  pending_.emplace(place, std::move(state));
  go_to_last_note();
}

void NotedPlaces::deliver(std::uint64_t begin, std::uint64_t end) {
  delivered_.add(begin, end);
  go_to_last_note();
}

void NotedPlaces::go_to_last_note() {
  const std::uint64_t end = delivered_.end_of_run(note_place_);
  while (!pending_.empty() && pending_.begin()->first <= end) {
    note_place_ = pending_.begin()->first;
    note_ = std::move(pending_.begin()->second);
    pending_.erase(pending_.begin());
  }
  delivered_.drop_below(note_place_);
}

io::StateTree NotedPlaces::save(std::string_view transform, std::uint64_t begin,
                                std::uint64_t end) const {
  PlaceSet delivered = delivered_;
  delivered.add(begin, end);
  const std::uint64_t run_end = delivered.end_of_run(note_place_);
  delivered.drop_below(run_end);
  const auto later = pending_.upper_bound(run_end);
  const bool is_newest = later == pending_.begin();
  const std::uint64_t place = is_newest ? note_place_ : std::prev(later)->first;
  io::StateTree state = make_position(transform, {{"place", place}, {"ahead", run_end - place}},
                                      is_newest ? note_ : std::prev(later)->second);
  save_places(state, delivered);
  return state;
}

void NotedPlaces::load(std::string_view transform, const io::StateTree& state) {
  check_position(state, transform);
  const PlaceSet early = load_places(state);
  const std::uint64_t place = position_number(state, "place");
  const std::uint64_t ahead = checked_ahead(position_number(state, "ahead"));
  check_early(early, place);
  check_argument(early.next_begin(0) >= place + ahead,
                 base::str_cat("A saved position counts places before ", place + ahead,
                               " twice: it is damaged"));
  io::StateTree note = position_input(state);
  PlaceSet delivered;
  delivered.add(place, place + ahead);
  for (const PlaceSet::Range& range : early.ranges()) delivered.add(range.begin, range.end);
  note_ = std::move(note);
  note_place_ = place;
  delivered_ = std::move(delivered);
  pending_.clear();
}

std::uint64_t NotedPlaces::pass(std::uint64_t count,
                                const std::function<std::uint64_t(std::uint64_t)>& skip) {
  std::uint64_t passed = 0;
  while (true) {
    const std::uint64_t end = delivered_.end_of_run(note_place_);
    const bool is_delivered = end != note_place_;
    const std::uint64_t gap = delivered_.next_begin(note_place_) - note_place_;
    const std::uint64_t distance = is_delivered ? end - note_place_ : std::min(gap, count - passed);
    if (distance == 0) break;
    const std::uint64_t done = skip(distance);
    note_place_ += done;
    if (!is_delivered) passed += done;
    if (done < distance) break;
  }
  delivered_.drop_below(note_place_);
  return passed;
}

}  // namespace brigade::data
