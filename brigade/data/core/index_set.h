#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "brigade/io/state_tree.h"

namespace brigade::data {

/// Which places of an epoch are done, where they need not be done in order: a few ranges, most
/// often one.
///
/// Thread-safety: a value.
class IndexSet {
 public:
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    friend bool operator==(const Range&, const Range&) = default;
  };

  /// Adds the places [begin, end), none of which may be in the set.
  void add(std::uint64_t begin, std::uint64_t end);
  /// Forgets all places before `index`.
  void drop_below(std::uint64_t index);
  /// The first place from `index` on that is not in the set.
  std::uint64_t end_of_run(std::uint64_t index) const;
  /// The first place from `index` on that is in the set; the largest number if there is none.
  std::uint64_t next_begin(std::uint64_t index) const;

  bool is_empty() const { return ranges_.empty(); }
  std::span<const Range> ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;  // in order; no two of them touch
};

/// No step is so far ahead of its consumer, or of what it can go back to: a saved position that
/// says so is damaged, and nobody waits for it.
inline constexpr std::uint64_t kMaxAhead = std::uint64_t{1} << 24;

/// `ahead`, if a step may be so many elements ahead; otherwise throws kInvalidArgument.
std::uint64_t checked_ahead(std::uint64_t ahead);
/// Throws kInvalidArgument if places are further than that ahead of `index`.
void check_early(const IndexSet& early, std::uint64_t index);

/// How a step notes the places that it passed ahead of its position, in its saved state: nothing if
/// there are none. `load_index_set` throws kInvalidArgument if the ranges are not in order.
void save_index_set(io::StateTree& state, const IndexSet& places);
IndexSet load_index_set(const io::StateTree& state);

}  // namespace brigade::data
