#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "brigade/data/core/replayable_input.h"
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

}  // namespace brigade::data::internal
