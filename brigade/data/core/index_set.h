#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "brigade/io/state_tree.h"

namespace brigade::data {

/// A set of element indices of one epoch, as ranges. For elements that may be delivered out of
/// order; there are few ranges, most often one.
///
/// Thread-safety: a value.
class IndexSet {
 public:
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    friend bool operator==(const Range&, const Range&) = default;
  };

  /// Adds the indices [begin, end), none of which may be in the set.
  void add(std::uint64_t begin, std::uint64_t end);
  /// Removes all indices before `index`.
  void drop_below(std::uint64_t index);
  /// The first index from `index` on that is not in the set.
  std::uint64_t end_of_run(std::uint64_t index) const;
  /// The first index from `index` on that is in the set; the largest number if there is none.
  std::uint64_t next_begin(std::uint64_t index) const;

  bool is_empty() const { return ranges_.empty(); }
  std::span<const Range> ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;  // in order; no two of them touch
};

/// The most elements that a step can be ahead of its consumer, or of its snapshot. A saved position
/// that says more is damaged, and is refused.
inline constexpr std::uint64_t kMaxAhead = std::uint64_t{1} << 24;

/// Returns `ahead`. Throws kInvalidArgument if it is more than `kMaxAhead`.
std::uint64_t checked_ahead(std::uint64_t ahead);
/// Throws kInvalidArgument if `early` has indices more than `kMaxAhead` ahead of `index`.
void check_early(const IndexSet& early, std::uint64_t index);

/// Writes the indices that a step delivered ahead of its position into its saved state; nothing if
/// there are none. `load_index_set` throws kInvalidArgument if the ranges are not in order.
void save_index_set(io::StateTree& state, const IndexSet& indices);
IndexSet load_index_set(const io::StateTree& state);

}  // namespace brigade::data
