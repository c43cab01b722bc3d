#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "brigade/distribute/input_options.h"
#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// Whether every worker walks over the same data, or over data of its own.
enum class InputSource { kSameForAll, kOwn };

/// What the workers have to settle about their input, apart from the batches themselves.
///
/// Thread-safety: one thread at a time.
class InputTurns {
 public:
  /// `files` is a hash of the list of files that the workers share out, if they do.
  InputTurns(InputPlace place, InputSource source, std::optional<std::uint64_t> files = {});

  const InputPlace& place() const { return place_; }
  /// Whether several workers have data of their own, so that all below is collective.
  bool has_own_data() const;

  struct Agreed {
    bool somebody_has_data = false;
    std::int64_t examples = 0;  ///< of all workers
  };
  /// What all have of the next step. The first time the lists of files are compared: throws
  /// kInvalidArgument in every worker if one has another.
  Agreed agree(std::span<const std::int64_t> own_counts);

  /// The state of the workers' walks, of which this one's stands at `position`: every worker's,
  /// where they have data of their own.
  io::StateTree save(const io::StateTree& position) const;
  /// This worker's position. Throws kInvalidArgument if another number of workers with data of
  /// their own saved it, or workers that all had the same.
  const io::StateTree& restore(const io::StateTree& state) const;

 private:
  void compare_files();
  InputPlace place_;
  InputSource source_;
  std::optional<std::uint64_t> files_;  // until they are compared
};

}  // namespace brigade::distribute
