#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "brigade/data/core/index_set.h"
#include "brigade/io/state_tree.h"

namespace brigade::data {

/// The position of a consumer whose workers are ahead of it. It holds snapshots of the input at
/// some indices of the epoch, and the indices that are delivered. A saved position is the last
/// snapshot before which everything is delivered, and what is delivered after it.
///
/// Thread-safety: one thread at a time.
class ConsumerPosition {
 public:
  /// At index 0; `start` is the input's state there.
  explicit ConsumerPosition(io::StateTree start) : snapshot_(std::move(start)) {}

  /// The snapshot to resume from, and what is delivered from there on.
  std::uint64_t snapshot_index() const { return snapshot_index_; }
  const io::StateTree& snapshot() const { return snapshot_; }
  const IndexSet& delivered() const { return delivered_; }

  /// Adds the input's state before `index`. It becomes the snapshot to resume from once all
  /// elements before `index` are delivered.
  void add_snapshot(std::uint64_t index, io::StateTree state);
  /// Marks the indices [begin, end) as delivered; none of them was before.
  void mark_delivered(std::uint64_t begin, std::uint64_t end);
  /// Drops the snapshots that are not reached yet. Call it when no elements are in flight.
  void drop_pending() { pending_.clear(); }

  /// The position if [begin, end) were delivered too.
  io::StateTree save(std::string_view transform, std::uint64_t begin, std::uint64_t end) const;
  /// Throws kInvalidArgument, and changes nothing, if `state` is of another transform or broken.
  void load(std::string_view transform, const io::StateTree& state);

  /// Moves the snapshot index past the next `count` elements that are not delivered, and past the
  /// delivered ones between and right after them. `skip(n)` skips up to `n` elements of the input,
  /// which must be at the snapshot, and returns how many it skipped. Returns how many of the
  /// `count` elements there were. Call `set_snapshot` afterwards.
  std::uint64_t skip_undelivered(std::uint64_t count,
                                 const std::function<std::uint64_t(std::uint64_t)>& skip);
  void set_snapshot(io::StateTree state) { snapshot_ = std::move(state); }

 private:
  void advance_snapshot();

  io::StateTree snapshot_;  // the input's state at snapshot_index_
  std::uint64_t snapshot_index_ = 0;
  IndexSet delivered_;                              // from snapshot_index_ on
  std::map<std::uint64_t, io::StateTree> pending_;  // by index, which is not reached yet
};

}  // namespace brigade::data
