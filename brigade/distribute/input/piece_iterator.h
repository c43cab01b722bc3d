#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "brigade/data/core/iterator.h"
#include "brigade/distribute/input/auto_shard.h"
#include "brigade/distribute/input/batch_ops.h"
#include "brigade/io/state_tree.h"

namespace brigade::distribute {

/// Iterates over the batches of one pipeline in pieces, such as one for each replica. Its position
/// can be saved between two pieces of a batch.
///
/// Thread-safety: one thread at a time.
class PieceIterator {
 public:
  /// Without `sizes` each piece is a whole batch.
  PieceIterator(const BatchOps& ops, data::Iterator<std::any> batches, PieceSizes sizes);

  /// The next piece, which may be empty; nullopt at the end.
  std::optional<std::any> next();
  /// Skips whole batches. Only between two of them.
  void skip_batches(int count);

  std::uint64_t epoch() const { return batches_.epoch(); }
  void start_next_epoch();

  /// The position after the last piece that `next` returned.
  io::StateTree save() const;
  /// Moves to a saved position. If batches are split differently now, the rest of the batch is
  /// split in the new way. Throws kInvalidArgument for a position within a batch if batches are not
  /// split.
  void restore(const io::StateTree& state);

 private:
  bool next_batch();
  void discard_batch();
  void restore_within(std::size_t piece_index, std::int64_t given);

  BatchOps ops_;
  data::Iterator<std::any> batches_;
  PieceSizes sizes_of_;
  io::StateTree before_;             // the position before the batch
  std::optional<std::any> batch_;    // the one being iterated over
  std::vector<std::int64_t> sizes_;  // of its pieces
  std::size_t next_piece_ = 0;       // the index of the next piece
  std::int64_t examples_given_ = 0;  // examples in the pieces before it
  std::int64_t full_ = 0;            // the largest batch of this epoch so far
};

}  // namespace brigade::distribute
