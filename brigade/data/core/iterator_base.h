#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/linked_token.h"
#include "brigade/data/core/error_context.h"
#include "brigade/data/core/order.h"
#include "brigade/data/core/sharding.h"
#include "brigade/io/state_tree.h"

namespace brigade::data {

class Stages;

/// What an iterator needs to know about the job.
struct IteratorOptions {
  /// The job's root seed. Transforms without a seed of their own derive theirs from it and from
  /// their place in the chain of transforms.
  std::uint64_t seed = 0;
  /// The number of the first epoch: 0, or where a job starts that has already seen some.
  std::uint64_t epoch = 0;
  /// The part of the dataset to walk over, where several walks share it out. A dataset without
  /// files, or without a hint, is walked over as a whole.
  Shard shard{};
  /// Ends every wait of the walk once somebody cancels it: `Iterator::next` then throws kCancelled.
  /// A source or transform of your own that waits must wait with it. Unset: nobody cancels.
  std::optional<concurrency::CancelToken> cancel{};
  /// Where the steps of the walk count what they do (`Iterator::stats`). Null: nobody measures.
  std::shared_ptr<Stages> stages{};
  /// kRelaxed relaxes all parallel steps that do not choose themselves, kInOrder keeps the order
  /// whatever they choose: what a transform gives to its input if it goes back by reading again.
  std::optional<Order> order{};
};

/// The options of a part of a walk that may end before the walk does: with a token of its own.
inline IteratorOptions options_ended_by(const concurrency::LinkedToken& end,
                                        IteratorOptions options) {
  options.cancel = end.token();
  return options;
}

/// What runs inside an `Iterator`: one a transform, each owning the iterator of its input.
///
/// Every element has a place, also one that cannot be made: it is thrown by `next()` once, in its
/// turn, and counts as passed. So positions never depend on which elements failed.
///
/// Thread-safety: one call at a time; successive calls may come from different threads.
template <class T>
class IteratorBase {
 public:
  virtual ~IteratorBase() = default;
  /// The next element; nothing at the end, and from then on.
  virtual std::optional<T> next() = 0;
  /// Passes over up to `count` elements, failed ones included, as cheaply as the transform can, and
  /// returns how many there were: fewer than `count` only at the end. Throws kCancelled once the
  /// walk is cancelled.
  virtual std::uint64_t skip(std::uint64_t count);
  /// The position behind the last element returned.
  virtual io::StateTree save() const = 0;
  /// Goes to a position saved by an iterator of the same node, from any state of this one.
  virtual void restore(const io::StateTree& state) = 0;
  /// Whether a `next()` that ended because the token was cancelled has passed nothing, so that
  /// `save()` still is the position behind the last element returned.
  virtual bool keeps_position_when_cancelled() const { return false; }
};

template <class T>
std::uint64_t IteratorBase<T>::skip(std::uint64_t count) {
  for (std::uint64_t passed = 0; passed < count; ++passed) {
    try {
      if (!next()) return passed;
    } catch (...) {  // whoever skips an element does not ask whether it could have been made
      internal::rethrow_if_cancelled();
    }
  }
  return count;
}

}  // namespace brigade::data
