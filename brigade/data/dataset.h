#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/data/transforms/assert_cardinality.h"
#include "brigade/data/runtime/autotune.h"
#include "brigade/data/transforms/batch.h"
#include "brigade/data/transforms/bucket_by_sequence_length.h"
#include "brigade/data/transforms/cache.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/codec.h"
#include "brigade/data/transforms/concatenate.h"
#include "brigade/data/transforms/enumerate.h"
#include "brigade/data/transforms/file_cache.h"
#include "brigade/data/transforms/filter.h"
#include "brigade/data/transforms/group_by_window.h"
#include "brigade/data/transforms/ignore_errors.h"
#include "brigade/data/interleave/interleave.h"
#include "brigade/data/core/iterator.h"
#include "brigade/data/transforms/map.h"
#include "brigade/data/core/node.h"
#include "brigade/data/transforms/padded_batch.h"
#include "brigade/data/transforms/prefetch.h"
#include "brigade/data/transforms/rebatch.h"
#include "brigade/data/transforms/rejection_resample.h"
#include "brigade/data/transforms/repeat.h"
#include "brigade/data/transforms/scan.h"
#include "brigade/data/transforms/shard.h"
#include "brigade/data/core/sharding.h"
#include "brigade/data/transforms/shuffle.h"
#include "brigade/data/transforms/single_element.h"
#include "brigade/data/transforms/skip.h"
#include "brigade/data/core/structure.h"
#include "brigade/data/transforms/take.h"
#include "brigade/data/transforms/take_while.h"
#include "brigade/data/transforms/unbatch.h"
#include "brigade/data/transforms/unique.h"
#include "brigade/data/transforms/window.h"
#include "brigade/data/core/with_options.h"
#include "brigade/io/file_system.h"

namespace brigade::data {

/// A recipe for a sequence of elements: a source and a chain of transforms. It holds no position
/// and reads nothing until somebody walks over it. Every transform returns a new dataset and leaves
/// this one as it is; copies are cheap.
///
///   auto train = input::fashion_mnist().shuffle(10'000).batch(128).prefetch(kAutotune);
///   auto iterator = train.iterator({.seed = 7});
///   for (int epoch = 0; epoch < 5; ++epoch, iterator.start_next_epoch()) {
///     for (const auto& batch : iterator) { ... }
///   }
///
/// The elements of an epoch, their order and their random augmentation are functions of (recipe,
/// seed, epoch) alone: threads, prefetching and resuming do not change a bit of them. So two
/// iterators with the same options give the same elements, and so do two range-for loops straight
/// over a dataset, which both walk over epoch 0; walk on with one iterator for new orders.
///
/// TensorFlow counterpart: tf.data.Dataset.
/// Thread-safety: immutable; const calls from any number of threads.
template <class T>
class Dataset {
 public:
  using Element = T;

  /// A dataset over a source or transform of your own.
  explicit Dataset(NodePtr<T> node) : node_(std::move(node)) {}

  /// A walk over the elements, standing before the first one.
  Iterator<T> iterator(IteratorOptions options = {}) const { return {node_, std::move(options)}; }

  /// Elements in one epoch, or `kInfinite`, or `kUnknown`.
  std::int64_t cardinality() const { return node_->cardinality(); }

  /// Whether and how several walks can share the elements out (`IteratorOptions::shard`). Where
  /// they do, a transform works on what its walk has: `take(n)` takes n from each.
  ShardingInfo sharding() const { return node_->sharding(); }

  /// The recipe, for people: "range(10) | shuffle(4) | batch(2)".
  std::string describe() const { return node_->describe(); }

  /// Each element becomes `function(element)`, or `function(element, ElementContext&)` for random
  /// augmentation. With `{.parallelism = n}` n threads work ahead; the order stays that of the
  /// input. What the function throws is thrown by `next()` at the element's place, with the recipe
  /// and the element named: an `Error` keeps its code, other exceptions become kAborted.
  template <class F>
  auto map(F function, MapOptions options = {}) const {
    using Result = typename internal::MapTraits<F, T>::Result;
    return Dataset<Result>(make_map(node_, std::move(function), std::move(options)));
  }

  /// The elements for which `predicate(const element&)` is true. What the predicate throws is
  /// thrown at the element's place, named as `map` does. The cardinality is `kUnknown`.
  template <class F>
  Dataset filter(F predicate) const {
    return Dataset(make_filter(node_, std::move(predicate)));
  }

  /// The elements of the datasets `function(element)`, one dataset after the other. Each is made
  /// when its turn comes, and has a seed of its own, so that datasets that shuffle inside do it in
  /// different ways. What the function throws is thrown where its dataset would have begun, and
  /// errors inside say of which element the dataset is. The saved position is that of the input and
  /// that in the open dataset, which restoring makes again from its element. The cardinality is
  /// `kUnknown`.
  template <class F>
  auto flat_map(F function) const {
    return datasets_of(make_flat_map(node_, std::move(function)));
  }

  /// Like `flat_map`, with `cycle_length` datasets open at once that take turns, each giving
  /// `block_length` elements in its turn; one that ends makes way for the next at the slot's next
  /// turn. With `{.parallelism = n}` n threads make the datasets and read them ahead, of each up to
  /// 64 elements (1 or 2 where one takes long); the order stays the same unless it is relaxed. The
  /// saved position holds a place in each open dataset, and fits any number of threads. Throws
  /// kInvalidArgument if a length or the parallelism is out of range.
  template <class F>
  auto interleave(F function, InterleaveOptions options = {}) const {
    return datasets_of(make_interleave(node_, std::move(function), options));
  }

  /// The elements in random order, drawn from a buffer that is filled from the input as it empties.
  /// Each epoch has another order, the same in every run. The saved position is two counts, and
  /// restoring re-reads only what lay in the buffer. Throws kInvalidArgument if the buffer size is
  /// less than 1.
  Dataset shuffle(const ShuffleOptions& options) const {
    return Dataset(make_shuffle(node_, options));
  }
  Dataset shuffle(std::int64_t buffer_size) const {
    return shuffle(ShuffleOptions{.buffer_size = buffer_size});
  }

  /// The elements `count` times over. Every pass is a new epoch for the transforms before this one,
  /// so a shuffle there gives each pass its own order. Ends at a pass without elements, also under
  /// `kForever`. Throws kInvalidArgument if `count` is negative and not `kForever`.
  Dataset repeat(std::int64_t count = kForever) const { return Dataset(make_repeat(node_, count)); }

  /// These elements, then those of `other`, which shuffles in a way of its own. Throws
  /// kInvalidArgument if they are more than can be counted.
  Dataset concatenate(const Dataset& other) const {
    return Dataset(make_concatenate(node_, other.node_));
  }

  /// Tuples of a number and an element: `start`, `start + 1`, ... An element that fails has a
  /// number too.
  auto enumerate(std::int64_t start = 0) const {
    return Dataset<std::tuple<std::int64_t, T>>(make_enumerate(node_, start));
  }

  /// `size` elements at a time, put together by `Structure<T>::stack`. An element that fails fails
  /// its batch. Throws kInvalidArgument if `size` is less than 1.
  auto batch(std::int64_t size, BatchOptions options = {}) const {
    return Dataset<typename Structure<T>::Batch>(make_batch(node_, size, options));
  }

  /// As `batch`, of elements of different lengths: each is brought to the length of the longest in
  /// its batch, or to the one given, by numbers put behind (`Padding<T>` says what else there is).
  ///
  ///   words.padded_batch(32, {.padding = {.length = 20, .value = -1}})
  ///
  /// An element that is too long fails its batch. Throws kInvalidArgument if `size` is less than 1.
  auto padded_batch(std::int64_t size, PaddedBatchOptions<T> options = {}) const {
    return Dataset<typename Structure<T>::Batch>(
        make_padded_batch(node_, size, std::move(options)));
  }

  /// Batches of elements of about one length, padded as by `padded_batch`: elements gather in
  /// buckets by their length, and a bucket that is full leaves as a batch. At the end the others
  /// leave, the shortest first.
  ///
  ///   sentences.bucket_by_sequence_length({.length = [](const Words& words) { ... },
  ///                                        .boundaries = {10, 20}, .batch_sizes = {64, 32, 16}})
  ///
  /// An element whose length cannot be told, or is beyond what is padded to, fails alone. A saved
  /// position is the places of the elements in the buckets, which restoring reads again. Throws
  /// kInvalidArgument unless the boundaries ascend and there is one batch size more.
  auto bucket_by_sequence_length(const BucketOptions<T>& options) const {
    return Dataset<typename Structure<T>::Batch>(make_bucket_by_sequence_length(node_, options));
  }

  /// The elements of the batches, one by one (`Unbatch<T>` says how they come apart). A batch that
  /// fails is one element that does.
  auto unbatch() const { return Dataset<typename Unbatch<T>::Element>(make_unbatch(node_)); }

  /// Batches of another size: cut and joined as batches where they can be, without going through
  /// elements. With several sizes, batches have them in turns. A batch that fails fails the one
  /// that would begin or go on in it; the next one begins behind it. Throws kInvalidArgument if a
  /// size is less than 1.
  Dataset rebatch(std::int64_t size, BatchOptions options = {}) const {
    return rebatch(std::vector<std::int64_t>{size}, options);
  }
  Dataset rebatch(std::vector<std::int64_t> sizes, BatchOptions options = {}) const {
    return Dataset(make_rebatch(node_, std::move(sizes), options));
  }

  /// Windows over the elements, each a dataset of `size` elements: side by side, or from one to the
  /// next `shift` elements further. `flat_map` makes one dataset of them:
  ///
  ///   series.window(10, {.shift = 1, .remainder = Remainder::kDrop})
  ///       .flat_map([](Dataset<double> window) { return window.batch(10); })
  ///
  /// Windows that overlap hold their elements together; walking over one makes copies. An element
  /// that fails does so in each of its windows. At the end windows are smaller, unless the
  /// remainder is dropped. Throws kInvalidArgument if size, shift or stride is less than 1.
  Dataset<Dataset> window(std::int64_t size, WindowOptions options = {}) const {
    return Dataset<Dataset>(make_window(node_, size, options));
  }

  /// Gathers elements by `key(element)`, and of each `window_size` elements with one key gives the
  /// elements of the dataset `reduce(key, Dataset<T> window)`. At the end the windows that are not
  /// full follow, the smallest key first. `window_size` is a number, or a function of the key.
  ///
  ///   numbers.group_by_window([](int x) { return x % 2; },
  ///                           [](std::int64_t, Dataset<int> window) { return window.batch(5); },
  ///                           5)
  ///
  /// An element without a key fails alone, and a window of which no dataset can be made as one
  /// element. A saved position is the places of the elements gathered, which restoring reads again.
  /// Throws kInvalidArgument if a number is less than 1.
  template <class Key, class Reduce, class Size>
  auto group_by_window(Key key, Reduce reduce, Size window_size) const {
    using Result = typename internal::ReductionTraits<Reduce, T>::Result;
    return Dataset<Result>(
        make_group_by_window(node_, std::move(key), std::move(reduce), std::move(window_size)));
  }

  /// Each element becomes the second of the pair that `function(state, element)` returns; the first
  /// is the state for the next element, `initial` that of the first:
  ///
  ///   // 1, 3, 6, 10, ...
  ///   counter(1).scan(0, [](int sum, auto x) { return std::pair(sum + x, sum + x); })
  ///
  /// Where the function throws, the state stays as it was. A saved position has the state if there
  /// is a `Codec` for it; otherwise restoring calls the function again from the first element on.
  template <class State, class F>
  auto scan(State initial, F function) const {
    using Result = typename internal::ScanTraits<State, F, T>::Result;
    return Dataset<Result>(make_scan(node_, std::move(initial), std::move(function)));
  }

  /// Each element once: those equal to an earlier one are left out. All that were seen are kept in
  /// memory, and restoring reads the input again from its first element on.
  Dataset unique() const { return Dataset(make_unique_elements(node_)); }

  /// Tuples of a class and an element, `class_of(element)` and the element, of which so many are
  /// left out that the classes come in the shares `target_dist`:
  ///
  ///   examples.rejection_resample([](const Example& e) { return e.label; }, {0.5, 0.5},
  ///                               {.initial_dist = {0.9, 0.1}})
  ///
  /// Which ones is a function of (recipe, seed, epoch) and their places; as few as can be. No
  /// element comes twice (in TensorFlow some do). Classes are numbers from 0 on; an element without
  /// one fails alone. Where `initial_dist` is not given, it is estimated from all elements so far,
  /// and the saved position has a count of each class. The cardinality is `kUnknown`, unless the
  /// shares are as they should be. Throws kInvalidArgument unless shares add up to 1.
  template <class F>
  auto rejection_resample(F class_of, std::vector<double> target_dist,
                          const ResampleOptions& options = {}) const {
    return Dataset<std::tuple<std::int64_t, T>>(
        make_rejection_resample(node_, std::move(class_of), std::move(target_dist), options));
  }

  /// The elements without those that failed: they are counted, and at the end of an epoch one line
  /// in the log says how many there were and why the first one failed. A walk that somebody
  /// cancelled fails all the same. Best put right behind the step whose errors are to be ignored:
  /// behind `batch` it leaves out whole batches.
  Dataset ignore_errors(IgnoreErrorsOptions options = {}) const {
    return Dataset(make_ignore_errors(node_, std::move(options)));
  }

  /// The same elements, which must be `count`, or without end if it is `kInfinite`: that is now the
  /// cardinality. If they are not, the last one fails (kFailedPrecondition). Throws
  /// kInvalidArgument for other negative numbers.
  Dataset assert_cardinality(std::int64_t count) const {
    return Dataset(make_assert_cardinality(node_, count));
  }

  /// The first `count` elements, or all of them if it is -1. Throws kInvalidArgument for other
  /// negative numbers.
  Dataset take(std::int64_t count) const { return Dataset(make_take(node_, count)); }

  /// The elements before the first for which `predicate(element)` is false. One for which it throws
  /// fails, and the walk goes on.
  template <class F>
  Dataset take_while(F predicate) const {
    return Dataset(make_take_while(node_, std::move(predicate)));
  }

  /// All elements but the first `count`, or none of them if it is -1, as in TensorFlow. Throws
  /// kInvalidArgument for other negative numbers.
  Dataset skip(std::int64_t count) const { return Dataset(make_skip(node_, count)); }

  /// Every `count`-th element, from element `index` on: `count` such datasets share the elements
  /// out. Best put early, since each reads its input from end to end. Throws kInvalidArgument
  /// unless 0 <= index < count.
  Dataset shard(std::int64_t count, std::int64_t index) const {
    return Dataset(make_shard(node_, count, index));
  }
  /// The place where the workers of a job share the elements out under AutoShardPolicy::kHint: as
  /// `shard(number of workers, own index)`. All that stands before it is the same in every worker,
  /// a shuffle too; otherwise it does nothing. TensorFlow: shard(SHARD_HINT, SHARD_HINT).
  Dataset shard_hint() const { return Dataset(make_shard_hint(node_)); }

  /// The elements of epoch 0, in every epoch: the first whole pass reads them from the input, later
  /// ones, of all iterators of this dataset, from memory. So random steps before it give the same
  /// in each epoch; put shuffle and augmentation behind it. A pass that ends before the input does
  /// is dropped, and so is one in which an element failed. Walks of another seed or shard have
  /// their own elements. A saved position is a count; where the cache is not filled, in a new
  /// process, restoring reads the input from its start, and fills it. What is handed out are
  /// copies: where copies share memory (tensors), a step behind this one must not write into it.
  /// Throws kInvalidArgument if the input never ends.
  Dataset cache() const { return Dataset(make_cache(node_)); }

  /// The same, kept in a folder of files, for later epochs and later runs. The folder appears when
  /// a pass is complete; of several writers one wins. Shards lie beside each other. A walk of
  /// another seed than the files' reads its input, and says so in the log.
  ///
  /// Iterators throw kFailedPrecondition, saying what differs, if the folder holds elements of
  /// another recipe or type, and kDataLoss if it is broken: delete it to have it written anew. If
  /// an element cannot be written (kResourceExhausted: the disk is full), `next()` throws that in
  /// its place, and the walk goes on without writing. TensorFlow: Dataset.cache(filename).
  Dataset cache(io::Path path, ElementFilesOptions options = {}) const requires Encodable<T> {
    return Dataset(make_file_cache(node_, std::move(path), std::move(options)));
  }

  /// As `cache(path)`, in several files that are read by a thread each, packed if wished.
  Dataset snapshot(io::Path path, SnapshotOptions options = {}) const requires Encodable<T> {
    return Dataset(make_snapshot(node_, std::move(path), std::move(options)));
  }

  /// The same elements, made on a thread of their own, up to `count` of them, and at most 65536,
  /// ahead of the consumer. Best put last. Throws kInvalidArgument if `count` is less than 1 and
  /// not `kAutotune`.
  Dataset prefetch(std::int64_t count) const { return Dataset(make_prefetch(node_, count)); }

  /// The same elements, with options for all steps up to here that leave the matter open: the order
  /// of parallel steps, and what autotuning may take.
  Dataset with_options(Options options) const {
    return Dataset(make_with_options(node_, std::move(options)));
  }

  /// `function(*this)`: chains what a function of yours does to a dataset.
  ///
  ///   auto batches = data::range(10).apply(normalized).batch(2);
  template <class F>
  auto apply(F function) const {
    return std::invoke(std::move(function), *this);
  }

  /// One walk over epoch 0. Leaving the loop early stops all threads.
  Cursor<T> begin() const {
    return Cursor<T>(std::make_shared<Iterator<T>>(node_, IteratorOptions()));
  }
  std::default_sentinel_t end() const { return {}; }

  /// `function(initial, element)` for the first element, the function of that and the second one,
  /// and so on: one walk over all elements, to sum or count.
  template <class State, class F>
  State reduce(State initial, F function, IteratorOptions options = {}) const {
    auto walk = iterator(std::move(options));
    while (auto element = walk.next()) {
      initial = std::invoke(function, std::move(initial), std::move(*element));
    }
    return initial;
  }

  /// The only element. Throws kInvalidArgument if there is none or more than one.
  T get_single_element(IteratorOptions options = {}) const {
    return single_element_of(node_, std::move(options));
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
