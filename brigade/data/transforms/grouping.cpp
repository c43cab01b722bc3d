#include "brigade/data/transforms/grouping.h"

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::data::internal {
namespace {

io::StateTree save_group(const GroupMembers& group) {
  io::StateTree state;
  state["key"] = group.key;
  state["places"] = io::StateTree::list();
  for (const ReplayPoint& point : group.points) state["places"].push_back(point.index);
  return state;
}

GroupMembers load_group(const io::StateTree& state, const ReplayPoint& first, std::uint64_t read) {
  GroupMembers group{.key = state.as_int64("key"), .points = {}};
  for (std::size_t i = 0; i < state.at("places").size(); ++i) {
    const std::uint64_t index = state.as_uint64("places", i);
    check_argument(index >= first.index && index < read,
                   "A saved position of groups is broken: it holds element ", index,
                   ", outside of ", first.index, " to ", read);
    group.points.push_back({first.snapshot, index});
  }
  return group;
}

void check_distinct(const std::vector<HeldElement>& held) {
  for (std::size_t i = 1; i < held.size(); ++i) {
    check_argument(held[i - 1].index != held[i].index,
                   "A saved position of groups is broken: it holds element ", held[i].index,
                   " twice");
  }
}

}  // namespace

const ReplayPoint& GroupingState::first() const {
  const ReplayPoint* first = &read;
  const auto look_at = [&](const GroupMembers& group) {
    // The elements of a group came one after the other.
    if (!group.points.empty() && group.points[0].index < first->index) first = &group.points[0];
  };
  for (const GroupMembers& group : groups) look_at(group);
  if (open) look_at(*open);
  return *first;
}

std::vector<HeldElement> held_in_order(const GroupingState& state) {
  std::vector<HeldElement> held;
  for (const GroupMembers& group : state.groups) {
    for (const ReplayPoint& point : group.points) held.push_back({point.index, group.key, false});
  }
  if (state.open) {
    for (const ReplayPoint& point : state.open->points) {
      held.push_back({point.index, state.open->key, true});
    }
  }
  std::ranges::sort(held, {}, &HeldElement::index);
  return held;
}

io::StateTree save_grouping(const GroupingState& state) {
  io::StateTree saved;
  saved["first"] = save_replay_point(state.first());
  saved["read"] = state.read.index;
  saved["groups"] = io::StateTree::list();
  for (const GroupMembers& group : state.groups) saved["groups"].push_back(save_group(group));
  if (state.open) saved["open"] = save_group(*state.open);
  return saved;
}

GroupingState load_grouping(const io::StateTree& state) {
  const ReplayPoint first = load_replay_point(state.at("first"));
  const std::uint64_t read = state.as_uint64("read");
  check_argument(read >= first.index, "A saved position of groups is broken: it goes backwards");
  GroupingState loaded{.read = {first.snapshot, read}, .groups = {}, .open = std::nullopt};
  for (const io::StateTree& group : state.as_list("groups")) {
    loaded.groups.push_back(load_group(group, first, read));
  }
  if (state.has("open")) loaded.open = load_group(state.at("open"), first, read);
  check_distinct(held_in_order(loaded));
  return loaded;
}

std::size_t checked_group_size(std::int64_t size, std::int64_t key) {
  if (size >= 1) return static_cast<std::size_t>(size);
  refuse("The window size of key ", key, " is ", size, "; it must be 1 or more");
}

std::function<std::int64_t(std::int64_t)> window_size_function(std::int64_t size) {
  check_argument(size >= 1, "group_by_window: the window size is ", size, "; it must be 1 or more");
  return [size](std::int64_t) { return size; };
}

std::string window_context(const std::string& where, std::uint64_t window, std::int64_t key) {
  return base::str_cat(where, ", window ", window, " (key ", key, "): ");
}

}  // namespace brigade::data::internal
