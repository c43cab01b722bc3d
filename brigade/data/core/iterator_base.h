#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/batch_memory.h"
#include "brigade/data/core/error_context.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/sharding.h"
#include "brigade/io/state_tree.h"

namespace brigade::data {

class Stages;

/// How to iterate over a dataset.
struct IteratorOptions {
  /// The job's root seed. A transform without its own seed derives one from this seed and from its
  /// index in the chain of transforms.
  std::uint64_t seed = 0;
  /// The number of the first epoch: 0, or more if the job has already completed some epochs.
  std::uint64_t epoch = 0;
  /// The shard to iterate over, if several iterators divide the dataset among them. A dataset that
  /// does not support `shard.by` (it has no files, or no hint) is iterated over as a whole.
  Shard shard{};
  /// Cancels the iteration: every wait ends, and `Iterator::next` throws kCancelled. A custom
  /// source or transform that waits must wait with this token. Unset: cannot be cancelled.
  std::optional<concurrency::CancelToken> cancel{};
  /// Where the steps record their statistics (`Iterator::stats`). Null: not measured.
  std::shared_ptr<Stages> stages{};
  /// kRelaxed relaxes the order of all parallel steps that do not set their own order. kInOrder
  /// keeps the order of all steps, whatever they set: a transform that re-reads its input passes
  /// it to the input.
  std::optional<Order> order{};
  /// Where batches are stacked: strategies ask for kPinned if a replica is on a GPU. A new batch
  /// that a later `map` makes is in ordinary memory, and so is one that `cache` keeps.
  BatchMemory batch_memory = BatchMemory::kPageable;
};

/// `options` with the token of `end`: for an input that may be cancelled before the whole iteration
/// ends.
inline IteratorOptions options_ended_by(const concurrency::LinkedToken& end,
                                        IteratorOptions options) {
  options.cancel = end.token();
  return options;
}

/// The implementation of an `Iterator`: one object per transform, which owns the iterator of its
/// input.
///
/// Every element has an index, also one that fails: `next()` throws its error once, when the
/// element is due, and then moves past it. So positions do not depend on which elements failed.
///
/// Thread-safety: one call at a time; successive calls may come from different threads.
template <class T>
class IteratorBase {
 public:
  virtual ~IteratorBase() = default;
  /// The next element, or `std::nullopt` at the end and in all later calls.
  virtual std::optional<T> next() = 0;
  /// Skips up to `count` elements, failed ones included, as cheaply as the transform can. Returns
  /// how many it skipped: fewer than `count` only at the end. Throws kCancelled once the iteration
  /// is cancelled.
  virtual std::uint64_t skip(std::uint64_t count);
  /// The position after the last element returned.
  virtual io::StateTree save() const = 0;
  /// Moves to a position saved by an iterator of the same node. This iterator may be in any state.
  virtual void restore(const io::StateTree& state) = 0;
  /// Whether `next()`, when it is cancelled, loses no element, so that `save()` still returns the
  /// position after the last element returned.
  virtual bool keeps_position_when_cancelled() const { return false; }
};

template <class T>
std::uint64_t IteratorBase<T>::skip(std::uint64_t count) {
  for (std::uint64_t passed = 0; passed < count; ++passed) {
    try {
      if (!next()) return passed;
    } catch (...) {  // the error of a skipped element does not matter
      internal::rethrow_if_cancelled();
    }
  }
  return count;
}

}  // namespace brigade::data
