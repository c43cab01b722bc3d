#include "brigade/data/core/places.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data {
namespace {

constexpr std::string_view kEarly = "early";

}  // namespace

void PlaceSet::add(std::uint64_t begin, std::uint64_t end) {
  if (begin == end) return;
  if (ranges_.size() == 1 && ranges_[0].end == begin) {  // always, while the order is kept
    ranges_[0].end = end;
    return;
  }
  auto next = std::find_if(ranges_.begin(), ranges_.end(),
                           [&](const Range& range) { return range.begin >= end; });
  if (next != ranges_.begin() && std::prev(next)->end == begin) {
    const auto range = std::prev(next);
    range->end = end;
    if (next != ranges_.end() && next->begin == end) {
      range->end = next->end;
      ranges_.erase(next);
    }
  } else if (next != ranges_.end() && next->begin == end) {
    next->begin = begin;
  } else {
    ranges_.insert(next, {begin, end});
  }
}

void PlaceSet::drop_below(std::uint64_t place) {
  std::erase_if(ranges_, [&](const Range& range) { return range.end <= place; });
  if (!ranges_.empty()) ranges_[0].begin = std::max(ranges_[0].begin, place);
}

std::uint64_t PlaceSet::end_of_run(std::uint64_t place) const {
  for (const Range& range : ranges_) {
    if (range.begin <= place && place < range.end) return range.end;
  }
  return place;
}

std::uint64_t PlaceSet::next_begin(std::uint64_t place) const {
  for (const Range& range : ranges_) {
    if (place < range.end) return std::max(range.begin, place);
  }
  return std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t checked_ahead(std::uint64_t ahead) {
  check_argument(ahead <= kMostAhead, base::str_cat("A saved position is ", ahead,
                                                    " elements ahead of where its input "
                                                    "stands; at most ",
                                                    kMostAhead, " are possible: it is damaged"));
  return ahead;
}

void check_early(const PlaceSet& early, std::uint64_t place) {
  if (!early.is_empty()) {
    const std::uint64_t end = early.ranges().back().end;
    checked_ahead(end - std::min(end, place));
  }
}

void save_places(io::StateTree& state, const PlaceSet& places) {
  for (const PlaceSet::Range& range : places.ranges()) {
    state[kEarly].push_back(range.begin);
    state[kEarly].push_back(range.end);
  }
}

PlaceSet load_places(const io::StateTree& state) {
  PlaceSet places;
  if (!state.has(kEarly)) return places;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < state.at(kEarly).size(); i += 2) {
    const std::uint64_t begin = state.as_uint64(kEarly, i);
    const std::uint64_t end = state.as_uint64(kEarly, i + 1);
    check_argument(last <= begin && begin < end,
                   base::str_cat("A saved position has the places ", begin, " to ", end, " behind ",
                                 last, ": it is damaged"));
    places.add(begin, end);
    last = end;
  }
  return places;
}

}  // namespace brigade::data
