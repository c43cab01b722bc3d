#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/transforms/map.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/io/state_tree.h"

namespace brigade::data {

struct ResampleOptions {
  /// The share of each class in the input. Empty: estimated from the elements as they come, which
  /// takes some hundred of them to come near.
  std::vector<double> initial_dist{};
  /// Fixes which elements are kept whatever the job's seed. Unset: derived from the job's root seed
  /// and from where in the chain of transforms this one stands.
  std::optional<std::uint64_t> seed{};
};

namespace internal {

/// With which probability an element of each class is kept to make `target` of `initial`, leaving
/// out as few as can be: the ratios target / initial, as parts of the largest one.
///
/// What TensorFlow mixes of all elements and of resampled ones has the same shares and leaves out
/// as many. Here each element is decided about by itself, so the shares do not depend on how
/// classes follow each other, and no element comes twice.
std::vector<double> acceptance_for(const std::vector<double>& initial,
                                   const std::vector<double>& target);

/// What a resampling aims at, checked. `initial` is empty if it is to be estimated.
struct ResampleTarget {
  std::vector<double> initial;
  std::vector<double> target;
};
/// Throws kInvalidArgument unless both are probabilities that add up to 1, of the same classes, and
/// no class is wanted of which there is nothing.
ResampleTarget checked_resample(std::vector<double> target, std::vector<double> initial);
/// Whether there is nothing to leave out.
bool keeps_all(const ResampleTarget& target);
std::string name_of_resample(const ResampleTarget& target, const ResampleOptions& options);
std::uint64_t key_of_resample(const ResampleOptions& options, const IteratorOptions& job,
                              std::uint64_t depth);

/// Decides which elements of one walk are kept: a function of the key, their places and, where the
/// shares are estimated, the classes so far.
///
/// Thread-safety: one thread at a time.
class Resampler {
 public:
  Resampler(std::uint64_t key, ResampleTarget target);

  /// Whether the element at `place` is kept. Throws kInvalidArgument for a class that there is
  /// not.
  bool accepts(std::int64_t element_class, std::uint64_t index);

  /// Adds what was counted, if anything is.
  void save(io::StateTree& state) const;
  /// Throws kInvalidArgument if the state has not as many counts, and then changes nothing.
  void restore(const io::StateTree& state);

 private:
  bool estimates() const { return target_.initial.empty(); }
  void estimate();

  std::uint64_t key_;
  ResampleTarget target_;
  std::vector<std::uint64_t> counts_;  // of elements of each class, where they are estimated
  std::vector<double> acceptance_;
};

template <class F, class T>
class ResampleIterator final : public IteratorBase<std::tuple<std::int64_t, T>> {
 public:
  struct Call {
    std::shared_ptr<const F> class_of;
    std::string where;
    std::uint64_t epoch;
  };

  ResampleIterator(std::unique_ptr<IteratorBase<T>> input, Call call, Resampler resampler,
                   CancelPoller cancel_poller)
      : input_(std::move(input)),
        call_(std::move(call)),
        resampler_(std::move(resampler)),
        cancel_poller_(std::move(cancel_poller)) {}
  std::optional<std::tuple<std::int64_t, T>> next() override {
    while (true) {
      cancel_poller_.poll();
      ++index_;  // passed even if it throws
      auto element = input_->next();
      if (!element) break;
      const auto [element_class, is_kept] = judge(*element, index_ - 1);
      if (is_kept) return std::tuple<std::int64_t, T>(element_class, std::move(*element));
    }
    --index_;
    return std::nullopt;
  }
  io::StateTree save() const override {
    io::StateTree state = make_position("rejection_resample", {{"place", index_}}, input_->save());
    resampler_.save(state);
    return state;
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "rejection_resample");
    const std::uint64_t index = position_number(state, "place");
    Resampler resampler = resampler_;
    resampler.restore(state);
    input_->restore(position_input(state));
    resampler_ = std::move(resampler);
    index_ = index;
  }

 private:
  std::pair<std::int64_t, bool> judge(const T& element, std::uint64_t index) {
    try {
      const auto element_class = static_cast<std::int64_t>((*call_.class_of)(element));
      return {element_class, resampler_.accepts(element_class, index)};
    } catch (...) {
      rethrow_at_element(call_.where, call_.epoch, index);
    }
  }

  std::unique_ptr<IteratorBase<T>> input_;
  Call call_;
  Resampler resampler_;
  CancelPoller cancel_poller_;
  std::uint64_t index_ = 0;  // elements read from the input
};

template <class F, class T>
class ResampleNode final : public TransformNode<std::tuple<std::int64_t, T>, T> {
  static_assert(std::invocable<const F&, const T&>,
                "The function of rejection_resample must be callable as fn(const element&), return "
                "the class as a number from 0 on, and be const (no mutable lambda)");

 public:
  ResampleNode(NodePtr<T> input, F class_of, ResampleTarget target, const ResampleOptions& options)
      : TransformNode<std::tuple<std::int64_t, T>, T>(std::move(input),
                                                      name_of_resample(target, options)),
        class_of_(std::make_shared<const F>(std::move(class_of))),
        target_(std::move(target)),
        options_(options) {}
  std::unique_ptr<IteratorBase<std::tuple<std::int64_t, T>>> iterator(
      const IteratorOptions& job) const override {
    return std::make_unique<ResampleIterator<F, T>>(
        this->input_in_any_order().iterator(job),
        typename ResampleIterator<F, T>::Call{class_of_, this->describe(), job.epoch},
        Resampler(key_of_resample(options_, job, this->depth()), target_), CancelPoller(job.cancel));
  }
  std::int64_t cardinality() const override {
    return keeps_all(target_) ? this->input().cardinality() : kUnknown;
  }

 private:
  std::shared_ptr<const F> class_of_;
  ResampleTarget target_;
  ResampleOptions options_;
};

}  // namespace internal

/// See `Dataset::rejection_resample`.
template <class T, class F>
NodePtr<std::tuple<std::int64_t, T>> make_rejection_resample(NodePtr<T> input, F class_of,
                                                             std::vector<double> target_dist,
                                                             const ResampleOptions& options) {
  return std::make_shared<const internal::ResampleNode<F, T>>(
      std::move(input), std::move(class_of),
      internal::checked_resample(std::move(target_dist), options.initial_dist), options);
}

}  // namespace brigade::data
