#include "brigade/data/core/index_set.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "brigade/base/error.h"

namespace brigade::data {
namespace {

constexpr std::string_view kEarly = "early";

}  // namespace

void IndexSet::add(std::uint64_t begin, std::uint64_t end) {
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

void IndexSet::drop_below(std::uint64_t index) {
  std::erase_if(ranges_, [&](const Range& range) { return range.end <= index; });
  if (!ranges_.empty()) ranges_[0].begin = std::max(ranges_[0].begin, index);
}

std::uint64_t IndexSet::end_of_run(std::uint64_t index) const {
  for (const Range& range : ranges_) {
    if (range.begin <= index && index < range.end) return range.end;
  }
  return index;
}

std::uint64_t IndexSet::next_begin(std::uint64_t index) const {
  for (const Range& range : ranges_) {
    if (index < range.end) return std::max(range.begin, index);
  }
  return std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t checked_ahead(std::uint64_t ahead) {
  check_argument(ahead <= kMaxAhead, "A saved position is ", ahead,
                 " elements ahead of its input; at most ", kMaxAhead,
                 " are possible: it is damaged");
  return ahead;
}

void check_early(const IndexSet& early, std::uint64_t index) {
  if (!early.is_empty()) {
    const std::uint64_t end = early.ranges().back().end;
    checked_ahead(end - std::min(end, index));
  }
}

void save_index_set(io::StateTree& state, const IndexSet& indices) {
  for (const IndexSet::Range& range : indices.ranges()) {
    state[kEarly].push_back(range.begin);
    state[kEarly].push_back(range.end);
  }
}

IndexSet load_index_set(const io::StateTree& state) {
  IndexSet indices;
  if (!state.has(kEarly)) return indices;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < state.at(kEarly).size(); i += 2) {
    const std::uint64_t begin = state.as_uint64(kEarly, i);
    const std::uint64_t end = state.as_uint64(kEarly, i + 1);
    check_argument(last <= begin && begin < end, "A saved position has the elements ", begin,
                   " to ", end, " after element ", last, ": it is damaged");
    indices.add(begin, end);
    last = end;
  }
  return indices;
}

}  // namespace brigade::data
