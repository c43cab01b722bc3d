#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/codec.h"
#include "brigade/data/core/iterator.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/sharding.h"
#include "brigade/data/core/structure.h"
#include "brigade/data/core/with_options.h"
#include "brigade/data/interleave/interleave.h"
#include "brigade/data/runtime/autotune.h"
#include "brigade/data/transforms/assert_cardinality.h"
#include "brigade/data/transforms/batch.h"
#include "brigade/data/transforms/bucket_by_sequence_length.h"
#include "brigade/data/transforms/cache.h"
#include "brigade/data/transforms/concatenate.h"
#include "brigade/data/transforms/enumerate.h"
#include "brigade/data/transforms/file_cache.h"
#include "brigade/data/transforms/filter.h"
#include "brigade/data/transforms/group_by_window.h"
#include "brigade/data/transforms/ignore_errors.h"
#include "brigade/data/transforms/map.h"
#include "brigade/data/transforms/prefetch.h"
#include "brigade/data/transforms/rebatch.h"
#include "brigade/data/transforms/rejection_resample.h"
#include "brigade/data/transforms/repeat.h"
#include "brigade/data/transforms/scan.h"
#include "brigade/data/transforms/shard.h"
#include "brigade/data/transforms/shuffle.h"
#include "brigade/data/transforms/take.h"
#include "brigade/data/transforms/unique.h"
#include "brigade/data/transforms/window.h"
#include "brigade/io/file_system.h"

namespace brigade::data {

namespace internal {

/// The errors of `Dataset::get_single_element`.
[[noreturn]] void throw_no_element(const std::string& dataset);
[[noreturn]] void throw_more_than_one_element(const std::string& dataset);

}  // namespace internal

/// The description of a sequence of elements: a source and a chain of transforms. It holds no
/// position, and reads nothing until you iterate over it. Every transform returns a new dataset and
/// does not change this one. Copies are cheap.
///
///   auto train = input::fashion_mnist().shuffle(10'000).batch(128).prefetch(kAutotune);
///   auto iterator = train.iterator({.seed = 7});
///   for (int epoch = 0; epoch < 5; ++epoch, iterator.start_next_epoch()) {
///     for (const auto& batch : iterator) { ... }
///   }
///
/// The elements of an epoch, their order and their random augmentation depend only on the pipeline,
/// the seed and the epoch: threads, prefetching and resuming do not change a bit of them. So two
/// iterators with the same options return the same elements. A range-for loop over the dataset
/// itself is always over epoch 0; for a new order in each epoch, keep one iterator.
///
/// TensorFlow counterpart: tf.data.Dataset.
/// Thread-safety: immutable; const calls from any number of threads.
template <class T>
class Dataset {
 public:
  using Element = T;

  /// A dataset of a custom source or transform.
  explicit Dataset(NodePtr<T> node) : node_(std::move(node)) {}

  /// An iterator before the first element.
  Iterator<T> iterator(IteratorOptions options = {}) const { return {node_, std::move(options)}; }

  /// The number of elements in one epoch, or `kInfinite`, or `kUnknown`.
  std::int64_t cardinality() const { return node_->cardinality(); }

  /// How the dataset can be divided into shards (`IteratorOptions::shard`). A transform works on
  /// each shard separately: `take(n)` takes n elements of each shard.
  ShardingInfo sharding() const { return node_->sharding(); }

  /// The pipeline in human-readable form: "range(10) | shuffle(4) | batch(2)".
  std::string describe() const { return node_->describe(); }

  /// Each element becomes `function(element)`, or `function(element, ElementContext&)` for random
  /// augmentation. With `{.parallelism = n}` n threads work ahead; the order stays that of the
  /// input. If the function throws, `next()` throws when the element is due, with the pipeline and
  /// the element in the message: an `Error` keeps its code, other exceptions become kAborted.
  template <class F>
  auto map(F function, MapOptions options = {}) const {
    using Result = typename internal::MapTraits<F, T>::Result;
    return Dataset<Result>(make_map(node_, std::move(function), std::move(options)));
  }

  /// The elements for which `predicate(const element&)` is true. If the predicate throws, `next()`
  /// throws as for `map`. The cardinality is `kUnknown`.
  template <class F>
  Dataset filter(F predicate) const {
    return Dataset(make_filter(node_, std::move(predicate)));
  }

  /// The elements of the datasets `function(element)`, one dataset after the other. Each dataset is
  /// created when it is due, and has its own seed, so that datasets that shuffle use different
  /// orders. If the function throws, `next()` throws where the dataset would have started; errors
  /// inside a dataset name the element that it was made from. The saved position is that of the
  /// input and that in the open dataset, which restoring creates again from its element. The
  /// cardinality is `kUnknown`.
  template <class F>
  auto flat_map(F function) const {
    return datasets_of(make_flat_map(node_, std::move(function)));
  }

  /// Like `flat_map`, with `cycle_length` datasets open at the same time. They are read in
  /// round-robin order, `block_length` elements at a time; when one ends, the next dataset takes
  /// its slot in the next round. With `{.parallelism = n}` n threads create the datasets and
  /// prefetch up to 64 elements of each (1 or 2 if an element takes long); the order stays the same
  /// unless it is relaxed. The saved position holds the position in each open dataset, and can be
  /// restored with any number of threads. Throws kInvalidArgument if a length or the parallelism is
  /// out of range.
  template <class F>
  auto interleave(F function, InterleaveOptions options = {}) const {
    return datasets_of(make_interleave(node_, std::move(function), options));
  }

  /// The elements in random order, drawn from a buffer that is refilled from the input. Each epoch
  /// has another order, the same in every run. The saved position is two counts; restoring re-reads
  /// only the elements that were in the buffer. Throws kInvalidArgument if the buffer size is less
  /// than 1.
  Dataset shuffle(const ShuffleOptions& options) const {
    return Dataset(make_shuffle(node_, options));
  }
  Dataset shuffle(std::int64_t buffer_size) const {
    return shuffle(ShuffleOptions{.buffer_size = buffer_size});
  }

  /// The elements `count` times. Every pass is a new epoch for the transforms before this one, so a
  /// shuffle there gives each pass its own order. Ends after a pass without elements, also with
  /// `kForever`. Throws kInvalidArgument if `count` is negative and not `kForever`.
  Dataset repeat(std::int64_t count = kForever) const { return Dataset(make_repeat(node_, count)); }

  /// These elements, then those of `other`. Each dataset shuffles with its own seed. Throws
  /// kInvalidArgument if the cardinality exceeds 2^63 - 1.
  Dataset concatenate(const Dataset& other) const {
    return Dataset(make_concatenate(node_, other.node_));
  }

  /// Tuples of a number and an element, numbered `start`, `start + 1`, ... An element that fails
  /// has a number too.
  auto enumerate(std::int64_t start = 0) const {
    return Dataset<std::tuple<std::int64_t, T>>(make_enumerate(node_, start));
  }

  /// Batches of `size` elements, stacked by `Structure<T>::stack`. If an element fails, its batch
  /// fails. Throws kInvalidArgument if `size` is less than 1.
  auto batch(std::int64_t size, BatchOptions options = {}) const {
    return Dataset<typename Structure<T>::Batch>(make_batch(node_, size, options));
  }

  /// Like `batch`, for elements of different lengths: each is padded at the end to the length of
  /// the longest in its batch, or to a given length (see `Padding<T>` for the options).
  ///
  ///   words.padded_batch(32, {.padding = {.length = 20, .value = -1}})
  ///
  /// If an element is too long, its batch fails. Throws kInvalidArgument if `size` is less than 1.
  auto padded_batch(std::int64_t size, PaddedBatchOptions<T> options = {}) const {
    return Dataset<typename Structure<T>::Batch>(
        make_padded_batch(node_, size, std::move(options)));
  }

  /// Batches of elements of similar length, padded as by `padded_batch`: elements are collected in
  /// buckets by their length, and a full bucket becomes a batch. At the end the other buckets
  /// become batches, the shortest elements first.
  ///
  ///   sentences.bucket_by_sequence_length({.length = [](const Words& words) { ... },
  ///                                        .boundaries = {10, 20}, .batch_sizes = {64, 32, 16}})
  ///
  /// An element fails alone if its length function throws, or if it is longer than the padded
  /// length. A saved position is the indices of the elements in the buckets, which restoring reads
  /// again. Throws kInvalidArgument unless the boundaries ascend and there is one more batch size
  /// than boundaries.
  auto bucket_by_sequence_length(const BucketOptions<T>& options) const {
    return Dataset<typename Structure<T>::Batch>(make_bucket_by_sequence_length(node_, options));
  }

  /// The elements of the batches, one by one (`Unbatch<T>` splits a batch). A batch that fails
  /// becomes one element that fails.
  auto unbatch() const { return Dataset<typename Unbatch<T>::Element>(make_unbatch(node_)); }

  /// Batches of another size. Input batches are sliced and joined as batches if possible, without
  /// splitting them into elements. With several sizes, the batches cycle through them. If an input
  /// batch fails, the output batch that would start or continue in it fails; the next one starts
  /// after it. Throws kInvalidArgument if a size is less than 1.
  Dataset rebatch(std::int64_t size, BatchOptions options = {}) const {
    return rebatch(std::vector<std::int64_t>{size}, options);
  }
  Dataset rebatch(std::vector<std::int64_t> sizes, BatchOptions options = {}) const {
    return Dataset(make_rebatch(node_, std::move(sizes), options));
  }

  /// Windows over the elements, each a dataset of `size` elements. Each window starts `shift`
  /// elements after the previous one (default: `size`). `flat_map` makes one dataset of them:
  ///
  ///   series.window(10, {.shift = 1, .remainder = Remainder::kDrop})
  ///       .flat_map([](Dataset<double> window) { return window.batch(10); })
  ///
  /// Overlapping windows share their elements; iterating over a window copies them. An element that
  /// fails does so in each of its windows. At the end windows are smaller, unless the remainder is
  /// dropped. Throws kInvalidArgument if size, shift or stride is less than 1.
  Dataset<Dataset> window(std::int64_t size, WindowOptions options = {}) const {
    return Dataset<Dataset>(make_window(node_, size, options));
  }

  /// Collects elements by `key(element)`. For each `window_size` elements with the same key,
  /// returns the elements of the dataset `reduce(key, Dataset<T> window)`. At the end the windows
  /// that are not full follow, the smallest key first. `window_size` is a number, or a function of
  /// the key.
  ///
  ///   numbers.group_by_window([](int x) { return x % 2; },
  ///                           [](std::int64_t, Dataset<int> window) { return window.batch(5); },
  ///                           5)
  ///
  /// If `key` throws, the element fails alone. If `reduce` throws, the window becomes one element
  /// that fails. A saved position is the indices of the collected elements, which restoring reads
  /// again. Throws kInvalidArgument if `window_size` is less than 1.
  template <class Key, class Reduce, class Size>
  auto group_by_window(Key key, Reduce reduce, Size window_size) const {
    using Result = typename internal::ReductionTraits<Reduce, T>::Result;
    return Dataset<Result>(
        make_group_by_window(node_, std::move(key), std::move(reduce), std::move(window_size)));
  }

  /// `function(state, element)` returns a pair: the state for the next element, and the new
  /// element. `initial` is the state for the first element:
  ///
  ///   // 1, 3, 6, 10, ...
  ///   counter(1).scan(0, [](int sum, auto x) { return std::pair(sum + x, sum + x); })
  ///
  /// If the function throws, the state does not change. A saved position has the state if there is
  /// a `Codec` for it; otherwise restoring calls the function again from the first element on.
  template <class State, class F>
  auto scan(State initial, F function) const {
    using Result = typename internal::ScanTraits<State, F, T>::Result;
    return Dataset<Result>(make_scan(node_, std::move(initial), std::move(function)));
  }

  /// Each element once: elements equal to an earlier one are dropped. All elements seen are kept in
  /// memory, and restoring reads the input again from its first element on.
  Dataset unique() const { return Dataset(make_unique_elements(node_)); }

  /// Tuples of a class, `class_of(element)`, and an element. Drops elements so that the classes
  /// have the distribution `target_dist`:
  ///
  ///   examples.rejection_resample([](const Example& e) { return e.label; }, {0.5, 0.5},
  ///                               {.initial_dist = {0.9, 0.1}})
  ///
  /// It drops as few elements as possible; which ones depends only on the pipeline, seed, epoch and
  /// their indices. No element is repeated (in TensorFlow some are). Classes are numbers from 0 on;
  /// if `class_of` throws, the element fails alone. If `initial_dist` is not given, it is estimated
  /// from all elements so far, and the saved position has a count of each class. The cardinality is
  /// `kUnknown`, unless both distributions are equal. Throws kInvalidArgument unless each
  /// distribution adds up to 1.
  template <class F>
  auto rejection_resample(F class_of, std::vector<double> target_dist,
                          const ResampleOptions& options = {}) const {
    return Dataset<std::tuple<std::int64_t, T>>(
        make_rejection_resample(node_, std::move(class_of), std::move(target_dist), options));
  }

  /// Drops the elements that failed. They are counted, and at the end of an epoch one log line says
  /// how many there were and why the first one failed. A cancelled iteration still throws
  /// kCancelled. Put it right after the step whose errors you want to ignore: after `batch` it
  /// drops whole batches.
  Dataset ignore_errors(IgnoreErrorsOptions options = {}) const {
    return Dataset(make_ignore_errors(node_, std::move(options)));
  }

  /// The same elements, with cardinality `count`, which may be `kInfinite`. If there are fewer or
  /// more elements, `next()` throws kFailedPrecondition at the end. Throws kInvalidArgument for
  /// other negative numbers.
  Dataset assert_cardinality(std::int64_t count) const {
    return Dataset(make_assert_cardinality(node_, count));
  }

  /// The first `count` elements, or all of them if it is -1. Throws kInvalidArgument for other
  /// negative numbers.
  Dataset take(std::int64_t count) const { return Dataset(make_take(node_, count)); }

  /// The elements before the first for which `predicate(element)` is false. If the predicate
  /// throws, the element fails and the iteration continues.
  template <class F>
  Dataset take_while(F predicate) const {
    return Dataset(make_take_while(node_, std::move(predicate)));
  }

  /// All elements except the first `count`, or no elements if it is -1, as in TensorFlow. Throws
  /// kInvalidArgument for other negative numbers.
  Dataset skip(std::int64_t count) const { return Dataset(make_skip(node_, count)); }

  /// Every `count`-th element, from element `index` on: `count` such datasets together have each
  /// element once. Put it early, because each of them reads its whole input. Throws
  /// kInvalidArgument unless 0 <= index < count.
  Dataset shard(std::int64_t count, std::int64_t index) const {
    return Dataset(make_shard(node_, count, index));
  }
  /// Marks where AutoShardPolicy::kHint divides the elements among the workers of a job: it becomes
  /// `shard(number of workers, worker index)`. The steps before it are the same in every worker,
  /// also a shuffle. Without that policy it does nothing. TensorFlow: shard(SHARD_HINT,
  /// SHARD_HINT).
  Dataset shard_hint() const { return Dataset(make_shard_hint(node_)); }

  /// Caches the elements of epoch 0 in memory, for every epoch. The first complete pass reads them
  /// from the input; later passes, of all iterators of this dataset, read them from memory. So
  /// random steps before it give the same elements in each epoch: put shuffle and augmentation
  /// after it. A pass that stops before the end of the input, or in which an element failed, is not
  /// cached. Each seed and shard has its own cache. A saved position is a count; if the cache is
  /// not filled, in a new process, restoring reads the input from its start and fills the cache.
  /// Iterators return copies. If copies share memory (tensors), a step after this one must not
  /// write into it. Throws kInvalidArgument if the input never ends.
  Dataset cache() const { return Dataset(make_cache(node_)); }

  /// The same, in a folder of files, for later epochs and later runs. The folder appears when a
  /// pass is complete; of several writers one wins. Each shard has its own folder next to it. An
  /// iterator with another seed than the files reads its input, and logs that.
  ///
  /// Iterators throw kFailedPrecondition, saying what differs, if the folder holds elements of
  /// another pipeline or type, and kDataLoss if it is corrupt: delete it to write it again. If an
  /// element cannot be written (kResourceExhausted: the disk is full), `next()` throws that error
  /// once, and the iteration continues without writing. TensorFlow: Dataset.cache(filename).
  Dataset cache(io::Path path, ElementFilesOptions options = {}) const requires Encodable<T> {
    return Dataset(make_file_cache(node_, std::move(path), std::move(options)));
  }

  /// Like `cache(path)`, in several files, each read by its own thread, optionally compressed.
  Dataset snapshot(io::Path path, SnapshotOptions options = {}) const requires Encodable<T> {
    return Dataset(make_snapshot(node_, std::move(path), std::move(options)));
  }

  /// The same elements, read by a background thread up to `count` elements (at most 65536) ahead of
  /// the consumer. Put it last. Throws kInvalidArgument if `count` is less than 1 and not
  /// `kAutotune`.
  Dataset prefetch(std::int64_t count) const { return Dataset(make_prefetch(node_, count)); }

  /// The same elements, with defaults for all steps up to here: the order of parallel steps, and
  /// the budget of autotuning.
  Dataset with_options(Options options) const {
    return Dataset(make_with_options(node_, std::move(options)));
  }

  /// `function(*this)`: to use a custom function on a dataset in a chain.
  ///
  ///   auto batches = data::range(10).apply(normalized).batch(2);
  template <class F>
  auto apply(F function) const {
    return std::invoke(std::move(function), *this);
  }

  /// Iterates over epoch 0. Leaving the loop early stops all threads.
  Cursor<T> begin() const {
    return Cursor<T>(std::make_shared<Iterator<T>>(node_, IteratorOptions()));
  }
  std::default_sentinel_t end() const { return {}; }

  /// Folds the elements of one epoch into a state, to sum or count: `state = function(state,
  /// element)` for each element, starting with `initial`.
  template <class State, class F>
  State reduce(State initial, F function, IteratorOptions options = {}) const {
    auto elements = iterator(std::move(options));
    while (auto element = elements.next()) {
      initial = std::invoke(function, std::move(initial), std::move(*element));
    }
    return initial;
  }

  /// The only element. Throws kInvalidArgument if there is none or more than one.
  T get_single_element(IteratorOptions options = {}) const {
    auto elements = iterator(std::move(options));
    std::optional<T> element = elements.next();
    if (!element) internal::throw_no_element(describe());
    if (elements.next()) internal::throw_more_than_one_element(describe());
    return std::move(*element);
  }

  const NodePtr<T>& node() const { return node_; }

 private:
  template <class U>
  static Dataset<U> datasets_of(NodePtr<U> node) {
    return Dataset<U>(std::move(node));
  }

  NodePtr<T> node_;
};

}  // namespace brigade::data
