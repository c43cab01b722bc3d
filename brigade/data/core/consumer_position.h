#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "brigade/data/core/index_set.h"
#include "brigade/io/state_tree.h"

namespace brigade::data {

/// The position of a consumer whose workers are ahead of it: states of the input that were noted at
/// some places of the epoch, and which places are delivered. A position is the last note before
/// which all is delivered, and what is delivered behind it.
///
/// Thread-safety: one thread at a time.
class ConsumerPosition {
 public:
  /// At place 0, with the input's state there.
  explicit ConsumerPosition(io::StateTree start) : snapshot_(std::move(start)) {}

  /// The note to go back to, and what is delivered from there on.
  std::uint64_t snapshot_index() const { return snapshot_index_; }
  const io::StateTree& snapshot() const { return snapshot_; }
  const IndexSet& delivered() const { return delivered_; }

  /// The input's state before `index`, which is to become the note once all before is delivered.
  void add_snapshot(std::uint64_t index, io::StateTree state);
  /// The places [begin, end) are delivered; none of them was before.
  void deliver(std::uint64_t begin, std::uint64_t end);
  /// Nothing is under way any more: forgets the notes that were not reached.
  void drop_pending() { pending_.clear(); }

  /// With [begin, end) delivered as well.
  io::StateTree save(std::string_view transform, std::uint64_t begin, std::uint64_t end) const;
  /// Throws kInvalidArgument, and changes nothing, if `state` is of another transform or broken.
  void load(std::string_view transform, const io::StateTree& state);

  /// Moves the note to behind all that is delivered from it on and the next `count` places that are
  /// not. `skip` passes elements of the input, which stands at the note, and returns how many there
  /// were. Returns how many places of those `count` there were; `set_snapshot` must follow.
  std::uint64_t pass(std::uint64_t count, const std::function<std::uint64_t(std::uint64_t)>& skip);
  void set_snapshot(io::StateTree state) { snapshot_ = std::move(state); }

 private:
  void advance_snapshot();

  io::StateTree snapshot_;  // the input's state at snapshot_index_
  std::uint64_t snapshot_index_ = 0;
  IndexSet delivered_;                              // from snapshot_index_ on
  std::map<std::uint64_t, io::StateTree> pending_;  // by place, which is not reached yet
};

}  // namespace brigade::data
