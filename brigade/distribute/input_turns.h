#pragma once

#include <cstdint>
#include <span>
#include <utility>

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
  InputTurns(InputPlace place, InputOptions options, InputSource source);

  const ReplicaRange& replicas() const { return place_.replicas; }
  /// Steps that one batch of the dataset makes: 1, or the number of workers where each of them
  /// trains on all of it.
  std::int64_t per_batch() const { return per_batch_; }

  struct Agreed {
    bool somebody_has_data = false;
    std::int64_t examples = 0;  ///< of all workers
  };
  /// What all have of the next step. A collective of the workers, where there are several.
  Agreed agree(std::span<const std::int64_t> own_counts);

  /// The state of an iterator that stands at `position`, or `turn` steps into the batch behind it.
  /// Of data of their own, every worker's: a collective.
  io::StateTree save(const io::StateTree& position, std::int64_t turn) const;
  /// This worker's position, and the turn. Throws kInvalidArgument if another number of workers
  /// with data of their own saved it.
  std::pair<io::StateTree, std::int64_t> restore(const io::StateTree& state) const;

 private:
  bool has_own_data() const;
  InputPlace place_;
  InputSource source_;
  std::int64_t per_batch_;
};

}  // namespace brigade::distribute
