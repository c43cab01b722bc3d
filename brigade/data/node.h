#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/order.h"
#include "brigade/data/recipe.h"
#include "brigade/data/sharing.h"
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
  /// returns how many there were: fewer than `count` only at the end.
  virtual std::uint64_t skip(std::uint64_t count);
  /// The position behind the last element returned.
  virtual io::StateTree save() const = 0;
  /// Goes to a position saved by an iterator of the same node, from any state of this one.
  virtual void restore(const io::StateTree& state) = 0;
};

template <class T>
std::uint64_t IteratorBase<T>::skip(std::uint64_t count) {
  for (std::uint64_t passed = 0; passed < count; ++passed) {
    try {
      if (!next()) return passed;
    } catch (...) {  // whoever skips an element does not ask whether it could have been made
    }
  }
  return count;
}

/// One step of a dataset's definition: a source or a transform. Immutable, shared by all datasets
/// built on it. Write a source or transform of your own by deriving from it.
///
/// Thread-safety: const calls from any number of threads.
template <class T>
class Node {
 public:
  virtual ~Node() = default;
  /// An iterator at the start of epoch `options.epoch`. It must not outlive this node.
  virtual std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const = 0;
  /// Elements in one epoch, `kInfinite` or `kUnknown`.
  virtual std::int64_t cardinality() const = 0;
  /// The chain of steps up to this one, for messages: "fashion_mnist(train) | shuffle(1000)".
  virtual std::string describe() const = 0;
  /// The same for comparing. Override it where `describe` prints what may differ between machines.
  virtual Recipe recipe() const { return {describe()}; }
  /// How many transforms stand between the source (0) and here. Gives each its own random stream.
  virtual std::uint64_t depth() const = 0;
  /// Whether and how several walks can share the elements out. The answer says that iterators obey
  /// `IteratorOptions::shard`: sources of files do, everything else passes it on to its input.
  virtual Sharing sharing() const { return {}; }
};

template <class T>
using NodePtr = std::shared_ptr<const Node<T>>;

/// What all transforms with one input share.
template <class Out, class In = Out>
class TransformNode : public Node<Out> {
 public:
  TransformNode(NodePtr<In> input, std::string name)
      : TransformNode(std::move(input), name, name) {}
  /// `fixed` is the part of the name that a job never changes (`RecipeStep`).
  TransformNode(NodePtr<In> input, std::string name, std::string fixed)
      : input_(std::move(input)), name_(std::move(name)), fixed_(std::move(fixed)) {}
  std::string describe() const override { return input_->describe() + " | " + name_; }
  Recipe recipe() const override {
    Recipe recipe = input_->recipe();
    recipe.emplace_back(name_, fixed_);
    return recipe;
  }
  std::uint64_t depth() const override { return input_->depth() + 1; }
  Sharing sharing() const override { return input_->sharing(); }

 protected:
  const Node<In>& input() const { return *input_; }
  /// The answer of a transform that counts, and so does something else to shards than to the whole.
  Sharing sharing_of_counter() const {
    Sharing sharing = input_->sharing();
    if (sharing.counted_by.empty()) sharing.counted_by = name_;
    return sharing;
  }

 private:
  NodePtr<In> input_;
  std::string name_;
  std::string fixed_;
};

}  // namespace brigade::data
