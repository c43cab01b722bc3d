#include "brigade/data/core/consumer_position.h"

#include <algorithm>
#include <iterator>

#include "brigade/base/error.h"
#include "brigade/data/core/position.h"

namespace brigade::data {

void ConsumerPosition::add_snapshot(std::uint64_t index, io::StateTree state) {
  pending_.emplace(index, std::move(state));
  advance_snapshot();
}

void ConsumerPosition::mark_delivered(std::uint64_t begin, std::uint64_t end) {
  delivered_.add(begin, end);
  advance_snapshot();
}

void ConsumerPosition::advance_snapshot() {
  const std::uint64_t end = delivered_.end_of_run(snapshot_index_);
  while (!pending_.empty() && pending_.begin()->first <= end) {
    snapshot_index_ = pending_.begin()->first;
    snapshot_ = std::move(pending_.begin()->second);
    pending_.erase(pending_.begin());
  }
  delivered_.drop_below(snapshot_index_);
}

io::StateTree ConsumerPosition::save(std::string_view transform, std::uint64_t begin,
                                     std::uint64_t end) const {
  IndexSet delivered = delivered_;
  delivered.add(begin, end);
  const std::uint64_t run_end = delivered.end_of_run(snapshot_index_);
  delivered.drop_below(run_end);
  const auto later = pending_.upper_bound(run_end);
  const bool is_newest = later == pending_.begin();
  const std::uint64_t index = is_newest ? snapshot_index_ : std::prev(later)->first;
  io::StateTree state = make_position(transform, {{"place", index}, {"ahead", run_end - index}},
                                      is_newest ? snapshot_ : std::prev(later)->second);
  save_index_set(state, delivered);
  return state;
}

void ConsumerPosition::load(std::string_view transform, const io::StateTree& state) {
  check_position(state, transform);
  const IndexSet early = load_index_set(state);
  const std::uint64_t index = position_number(state, "place");
  const std::uint64_t ahead = checked_ahead(position_number(state, "ahead"));
  check_early(early, index);
  check_argument(early.next_begin(0) >= index + ahead,
                 "A saved position counts elements before element ", index + ahead,
                 " twice: it is damaged");
  io::StateTree snapshot = position_input(state);
  IndexSet delivered;
  delivered.add(index, index + ahead);
  for (const IndexSet::Range& range : early.ranges()) delivered.add(range.begin, range.end);
  snapshot_ = std::move(snapshot);
  snapshot_index_ = index;
  delivered_ = std::move(delivered);
  pending_.clear();
}

std::uint64_t ConsumerPosition::skip_undelivered(
    std::uint64_t count, const std::function<std::uint64_t(std::uint64_t)>& skip) {
  std::uint64_t passed = 0;
  while (true) {
    const std::uint64_t end = delivered_.end_of_run(snapshot_index_);
    const bool is_delivered = end != snapshot_index_;
    const std::uint64_t gap = delivered_.next_begin(snapshot_index_) - snapshot_index_;
    const std::uint64_t distance =
        is_delivered ? end - snapshot_index_ : std::min(gap, count - passed);
    if (distance == 0) break;
    const std::uint64_t done = skip(distance);
    snapshot_index_ += done;
    if (!is_delivered) passed += done;
    if (done < distance) break;
  }
  delivered_.drop_below(snapshot_index_);
  return passed;
}

}  // namespace brigade::data
