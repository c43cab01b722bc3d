#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/transforms/map.h"
#include "brigade/io/state_tree.h"

namespace brigade::data::internal {

struct GroupMembers {
  std::int64_t key = 0;
  std::vector<ReplayPoint> points;
};

/// The state of a grouping: how far the input was read, and which of its elements are still held.
struct GroupingState {
  ReplayPoint read;
  std::vector<GroupMembers> groups;
  std::optional<GroupMembers> open;  // a group that was returned but is still in use

  /// The first element that must be read again; `read` if there is none.
  const ReplayPoint& first() const;
};

/// One element to be read again.
struct HeldElement {
  std::uint64_t index = 0;
  std::int64_t key = 0;
  bool is_open = false;
};

/// All held elements in the order of the input.
std::vector<HeldElement> held_in_order(const GroupingState& state);

io::StateTree save_grouping(const GroupingState& state);
/// Throws kInvalidArgument if the state is invalid. All points share the snapshot of the first.
GroupingState load_grouping(const io::StateTree& state);

/// Throws kInvalidArgument unless `size` is at least 1.
std::size_t checked_group_size(std::int64_t size, std::int64_t key);

/// Elements with the same key, and their positions in the input.
template <class T>
struct Group {
  std::int64_t key = 0;
  std::vector<ReplayPoint> points;
  std::vector<T> elements;
};

/// The functions that determine the groups.
template <class T>
struct GroupingRule {
  std::function<std::int64_t(const T&)> key;
  /// The number of elements of a complete group of that key.
  std::function<std::int64_t(std::int64_t key)> size;
  std::string where;  // for messages
  std::uint64_t epoch = 0;
};

/// Groups the elements of an input by key: a group is returned when it is complete, and at the end
/// of the input the incomplete ones, smallest key first. An element whose key function throws fails
/// alone.
///
/// A saved position lists the replay points of the gathered elements; restoring reads them again.
///
/// Thread-safety: one thread at a time.
template <class T>
class Grouping {
 public:
  Grouping(ReplayableInput<T> input, GroupingRule<T> rule)
      : input_(std::move(input)), rule_(std::move(rule)) {}

  /// The next group; unset at the end. Throws the error of an element, which is then skipped.
  std::optional<Group<T>> next() {
    while (true) {
      auto next = input_.next();
      if (next.result.is_end()) break;
      std::optional<T> element = std::move(next.result).take();
      Gathered& gathered = gathered_for(*element, next.at.index);
      gathered.group.points.push_back(std::move(next.at));
      gathered.group.elements.push_back(std::move(*element));
      if (gathered.group.elements.size() >= gathered.size) return take(gathered.group.key);
    }
    if (gathered_.empty()) return std::nullopt;
    return take(gathered_.begin()->first);
  }

  /// `open`: a group that was returned and whose elements are still needed.
  io::StateTree save(const Group<T>* open) const {
    GroupingState state{.read = input_.position(), .groups = {}, .open = std::nullopt};
    for (const auto& [key, gathered] : gathered_) {
      state.groups.push_back({key, gathered.group.points});
    }
    if (open != nullptr) state.open = {open->key, open->points};
    return save_grouping(state);
  }
  /// Restores a saved position; returns the group that was open, with its elements.
  std::optional<Group<T>> restore(const io::StateTree& saved) {
    const GroupingState state = load_grouping(saved);
    gathered_.clear();
    std::optional<Group<T>> open;
    if (state.open) open = Group<T>{.key = state.open->key, .points = {}, .elements = {}};
    input_.seek(state.first());
    for (const HeldElement& held : held_in_order(state)) {
      pass_to(held.index);
      auto next = input_.next();
      std::optional<T> element = std::move(next.result).take();
      if (!element) throw_replay_past_end(held.index);
      Group<T>& group = held.is_open ? *open : group_of(held.key).group;
      group.points.push_back(std::move(next.at));
      group.elements.push_back(std::move(*element));
    }
    pass_to(state.read.index);
    return open;
  }

 private:
  struct Gathered {
    std::size_t size;  // of the complete group
    Group<T> group;
  };

  Gathered& gathered_for(const T& element, std::uint64_t index) {
    try {
      return group_of(rule_.key(element));
    } catch (...) {
      rethrow_at_element(rule_.where, rule_.epoch, index);
    }
  }
  Gathered& group_of(std::int64_t key) {
    auto found = gathered_.find(key);
    if (found == gathered_.end()) {
      const std::size_t size = checked_group_size(rule_.size(key), key);
      found =
          gathered_.emplace(key, Gathered{size, {.key = key, .points = {}, .elements = {}}}).first;
    }
    return found->second;
  }
  Group<T> take(std::int64_t key) { return std::move(gathered_.extract(key).mapped().group); }
  void pass_to(std::uint64_t index) {
    const std::uint64_t distance = index - input_.position().index;
    if (input_.skip(distance) != distance) throw_replay_past_end(index);
  }

  ReplayableInput<T> input_;
  GroupingRule<T> rule_;
  std::map<std::int64_t, Gathered> gathered_;
};

/// The window size: a number or a function of the key. Throws kInvalidArgument if it is less
/// than 1.
std::function<std::int64_t(std::int64_t)> window_size_function(std::int64_t size);
template <std::invocable<std::int64_t> F>
std::function<std::int64_t(std::int64_t)> window_size_function(F size) {
  return size;
}

/// "..., window 3: "
std::string window_context(const std::string& where, std::uint64_t window, std::int64_t key);

}  // namespace brigade::data::internal
