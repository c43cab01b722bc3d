#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/transforms/map.h"
#include "brigade/io/state_tree.h"

namespace brigade::data {

/// Options of `Dataset::rejection_resample`.
struct ResampleOptions {
  /// The fraction of each class in the input. Empty: estimated while reading, which takes some
  /// hundred elements to become accurate.
  std::vector<double> initial_dist{};
  /// Seed for the choice of elements, independent of the job's seed. Unset: derived from the job's
  /// root seed and from the position of this transform in the pipeline.
  std::optional<std::uint64_t> seed{};
};

namespace internal {

/// The probability with which an element of each class is kept, so that the class distribution
/// changes from `initial` to `target` and as few elements as possible are dropped: the ratios
/// target / initial, divided by the largest ratio.
///
/// TensorFlow mixes all elements with resampled ones, which gives the same distribution and drops
/// as many. Here each element is decided independently, so the distribution does not depend on the
/// order of classes, and no element is repeated.
std::vector<double> acceptance_for(const std::vector<double>& initial,
                                   const std::vector<double>& target);

/// The validated distributions of a resampling. `initial` is empty if it is estimated.
struct ResampleTarget {
  std::vector<double> initial;
  std::vector<double> target;
};
/// Throws kInvalidArgument unless both are probabilities of the same classes that add up to 1, and
/// no class with a positive target has an initial probability of 0.
ResampleTarget checked_resample(std::vector<double> target, std::vector<double> initial);
/// Whether every element is kept.
bool keeps_all(const ResampleTarget& target);
std::string name_of_resample(const ResampleTarget& target, const ResampleOptions& options);

/// Decides which elements of one pass are kept: a function of the key, the elements' indices and,
/// if the distribution is estimated, the classes so far.
///
/// Thread-safety: one thread at a time.
class Resampler {
 public:
  Resampler(std::uint64_t key, ResampleTarget target);

  /// Whether the element at `index` is kept. Throws kInvalidArgument for a class out of range.
  bool accepts(std::int64_t element_class, std::uint64_t index);

  /// Adds the counts to the state, if classes are counted.
  void save(io::StateTree& state) const;
  /// Throws kInvalidArgument if the state has another number of counts, and then changes nothing.
  void restore(const io::StateTree& state);

 private:
  bool estimates() const { return target_.initial.empty(); }
  void estimate();

  std::uint64_t key_;
  ResampleTarget target_;
  std::vector<std::uint64_t> counts_;  // of elements per class, if the distribution is estimated
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
      ++index_;  // counted even if it throws
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

}  // namespace internal

/// See `Dataset::rejection_resample`.
template <class T, class F>
NodePtr<std::tuple<std::int64_t, T>> make_rejection_resample(NodePtr<T> input, F class_of,
                                                             std::vector<double> target_dist,
                                                             const ResampleOptions& options) {
  static_assert(std::invocable<const F&, const T&>,
                "The function of rejection_resample must be callable as fn(const element&), return "
                "the class as a number from 0 on, and be const (no mutable lambda)");
  using Iterator = internal::ResampleIterator<F, T>;
  using Out = std::tuple<std::int64_t, T>;
  auto target = internal::checked_resample(std::move(target_dist), options.initial_dist);
  internal::TransformSpec spec{.name = internal::name_of_resample(target, options)};
  if (!internal::keeps_all(target)) spec.cardinality = internal::unknown_cardinality;
  return internal::make_transform<Out>(
      std::move(input), std::move(spec),
      [shared = std::make_shared<const F>(std::move(class_of)), target = std::move(target),
       seed = options.seed](const Node<T>& from, const IteratorOptions& job,
                            const Node<Out>& self) {
        const std::uint64_t key =
            internal::key_of_stream("rejection_resample", seed, job, self.depth(), job.epoch);
        return std::make_unique<Iterator>(
            from.iterator(job), typename Iterator::Call{shared, self.describe(), job.epoch},
            internal::Resampler(key, target), internal::CancelPoller(job.cancel));
      });
}

}  // namespace brigade::data
