#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/dataset.h"
#include "brigade/io/state_tree.h"

namespace brigade::data {

/// Options of SharedReaders.
struct SharedReadersOptions {
  /// How many readers there are, numbered from 0.
  int readers = 1;
  /// The fastest reader is at most so many elements ahead of the slowest; then it waits. Also the
  /// number of elements that a pass keeps in memory.
  std::int64_t max_ahead = 16;
  /// Ends every wait, and the reading of the inputs: `next()` throws kCancelled.
  concurrency::CancelToken cancel = {};
  /// If every reader has waited for another one for so long, each in a different pass, one of them
  /// continues alone.
  std::chrono::milliseconds patience = std::chrono::seconds(1);
};

namespace internal {

/// Why an element could not be read. Each reader throws an exception made from it: an exception
/// object that readers in different threads caught at the same time would be shared by them.
///
/// Thread-safety: a value.
struct ElementFailure {
  ErrorCode code;
  std::string message;
};

/// `error`'s code and message; what is no `Error` becomes kAborted.
ElementFailure failure_of(const std::exception_ptr& error);

/// An element that readers share, and the position of the input after it.
///
/// Thread-safety: a value.
struct SharedElement {
  std::shared_ptr<const void> element;
  std::shared_ptr<const ElementFailure> failure;
  std::shared_ptr<const io::StateTree> position;

  bool is_end() const { return element == nullptr && failure == nullptr; }
};

/// One pass of several readers over a dataset: the elements that not all of them have read yet.
///
/// Thread-safety: guarded by the mutex of its `ReaderGroup`, except `input`, which belongs to the
/// reader that reads now.
struct SharedPass {
  std::shared_ptr<const void> dataset;  // first: it outlives the input
  std::shared_ptr<void> input;          // null until the first element is read
  std::vector<std::uint64_t> positions;
  std::deque<SharedElement> elements;  // from `begin` on
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_at_end = false;
  bool is_being_read = false;

  /// The position of the slowest reader that has not left; `end` without any.
  std::uint64_t slowest() const;
  void drop_elements_read_by_all();
};

/// Which pass: of readers that open the same one repeatedly, their first openings belong together,
/// then their second ones.
///
/// Thread-safety: a value.
struct SharedPassKey {
  std::shared_ptr<const void> dataset;
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  Shard shard = {};

  friend bool operator<(const SharedPassKey& a, const SharedPassKey& b) {
    const auto order = [](const SharedPassKey& key) {
      return std::tuple(key.dataset.get(), key.seed, key.epoch, key.shard.by, key.shard.count,
                        key.shard.index);
    };
    return order(a) < order(b);
  }
};

/// The readers of a `SharedReaders`, and what they read.
///
/// Thread-safety: all functions from any thread.
class ReaderGroup {
 public:
  using Read = std::function<SharedElement()>;

  explicit ReaderGroup(SharedReadersOptions options);
  const SharedReadersOptions& options() const { return options_; }

  /// Null if the reader has ended.
  std::shared_ptr<SharedPass> open(const SharedPassKey& key, int reader);
  /// The next element of the pass for a reader; one with neither element nor failure at the end.
  /// Calls `read` for an element that nobody has read. Unset: the reader must continue alone.
  std::optional<SharedElement> next(SharedPass& pass, int reader,
                                    const std::optional<concurrency::CancelToken>& cancel,
                                    const Read& read);
  /// The reader needs no more elements of the pass.
  void leave(const std::shared_ptr<SharedPass>& pass, int reader);
  /// The reader reads no more.
  void end(int reader);
  std::int64_t elements_read() const;

 private:
  enum class Step { kTake, kRead, kEnd, kAlone, kAloneAfterWait };
  struct ReaderState {
    int waits = 0;
    int reads = 0;
    bool has_ended = false;
  };
  struct Openings {
    std::vector<std::shared_ptr<SharedPass>> passes;  // null: all readers have left it
    std::vector<std::size_t> count;                   // by reader
  };

  Step wait_for_step(SharedPass& pass, int reader,
                     const std::optional<concurrency::CancelToken>& cancel)
      BRIGADE_REQUIRES(mutex_);
  /// The step that is possible now; unset: wait.
  std::optional<Step> possible_step(const SharedPass& pass, int reader) const
      BRIGADE_REQUIRES(mutex_);
  bool all_others_wait(int reader) const BRIGADE_REQUIRES(mutex_);
  SharedElement take(SharedPass& pass, int reader) BRIGADE_REQUIRES(mutex_);
  void add(SharedPass& pass, SharedElement element) BRIGADE_REQUIRES(mutex_);
  void remove_reader(SharedPass& pass, int reader) BRIGADE_REQUIRES(mutex_);
  /// Takes passes without readers out of the list, for the caller to destroy without the lock.
  std::vector<std::shared_ptr<SharedPass>> take_finished() BRIGADE_REQUIRES(mutex_);

  const SharedReadersOptions options_;
  mutable concurrency::Mutex mutex_;
  concurrency::Condition changed_;
  std::vector<ReaderState> readers_ BRIGADE_GUARDED_BY(mutex_);
  std::map<SharedPassKey, Openings> openings_ BRIGADE_GUARDED_BY(mutex_);
  std::uint64_t moves_ BRIGADE_GUARDED_BY(mutex_) = 0;  // of any reader
  std::int64_t elements_read_ BRIGADE_GUARDED_BY(mutex_) = 0;
};

/// Reads a pass together with the other readers of the group, or, after `restore`, alone.
template <class T>
class SharedIterator final : public IteratorBase<T> {
 public:
  SharedIterator(NodePtr<T> node, std::shared_ptr<ReaderGroup> group, int reader,
                 IteratorOptions options)
      : node_(std::move(node)),
        group_(std::move(group)),
        reader_(reader),
        options_(std::move(options)) {}
  ~SharedIterator() override { leave(); }
  SharedIterator(const SharedIterator&) = delete;
  SharedIterator& operator=(const SharedIterator&) = delete;

  std::optional<T> next() override {
    if (!own_ && !pass_) open();
    if (own_) return own_->next();
    auto shared = group_->next(*pass_, reader_, options_.cancel, [this] { return read(); });
    if (!shared) {
      continue_alone();
      return own_->next();
    }
    if (shared->is_end()) return std::nullopt;
    position_ = std::move(shared->position);
    if (shared->failure) throw Error(shared->failure->code, shared->failure->message);
    return *std::static_pointer_cast<const T>(shared->element);
  }
  io::StateTree save() const override {
    if (own_) return own_->save();
    return position_ ? *position_ : node_->iterator(options_)->save();
  }
  void restore(const io::StateTree& state) override {
    auto own = node_->iterator(options_);
    own->restore(state);
    leave();
    own_ = std::move(own);
  }
  bool keeps_position_when_cancelled() const override {
    return !own_ || own_->keeps_position_when_cancelled();
  }

 private:
  void open() {
    pass_ = group_->open({node_, options_.seed, options_.epoch, options_.shard}, reader_);
    if (!pass_) own_ = node_->iterator(options_);
  }
  SharedElement read() {
    if (!pass_->input) {
      IteratorOptions shared = options_;
      shared.cancel = group_->options().cancel;
      shared.stages = std::make_shared<Stages>();
      shared.order = Order::kInOrder;
      pass_->input = node_->iterator(shared);
    }
    auto& input = *std::static_pointer_cast<IteratorBase<T>>(pass_->input);
    ElementResult<T> result = result_unless_cancelled(input, group_->options().cancel);
    if (result.is_end()) return {};
    SharedElement element;
    if (result.error)
      element.failure = std::make_shared<const ElementFailure>(failure_of(result.error));
    if (result.element) element.element = std::make_shared<const T>(std::move(*result.element));
    element.position = std::make_shared<const io::StateTree>(input.save());
    return element;
  }
  void continue_alone() {
    auto own = node_->iterator(options_);
    if (position_) own->restore(*position_);
    leave();
    own_ = std::move(own);
  }
  void leave() {
    if (pass_) group_->leave(std::exchange(pass_, nullptr), reader_);
  }

  const NodePtr<T> node_;
  const std::shared_ptr<ReaderGroup> group_;
  const int reader_;
  const IteratorOptions options_;
  std::shared_ptr<SharedPass> pass_;
  std::unique_ptr<IteratorBase<T>> own_;  // when it reads alone
  std::shared_ptr<const io::StateTree> position_;
};

/// Not a step: the elements and positions are those of its input.
template <class T>
class SharedNode final : public InputNode<T> {
 public:
  SharedNode(NodePtr<T> input, std::shared_ptr<ReaderGroup> group, int reader)
      : InputNode<T>(input, InputNode<T>::Need::kSameOrder),
        input_(std::move(input)),
        group_(std::move(group)),
        reader_(reader) {}
  std::unique_ptr<IteratorBase<T>> iterator(const IteratorOptions& options) const override {
    return std::make_unique<SharedIterator<T>>(input_, group_, reader_, this->for_input(options));
  }

 private:
  const NodePtr<T> input_;
  const std::shared_ptr<ReaderGroup> group_;
  const int reader_;
};

}  // namespace internal

/// Several readers, each on its own thread, that read the same datasets at about the same time:
/// every element is made once (read, decoded, augmented), and every reader gets all of them, in
/// order. For trainings of independent models on the same data, where decoding takes longer than a
/// step.
///
///   SharedReaders readers({.readers = 2});
///   // on thread r:
///   for (const auto& image : readers.dataset(images, r)) { ... }
///   readers.end(r);
///
/// A reader that is `max_ahead` elements ahead of the slowest waits for it, also for one that has
/// not begun. A reader that leaves a pass (its iterator is gone) or ends releases the others, so
/// call `end` whatever happens. Readers that read several datasets should do it in the same order;
/// if all wait for each other, one reads alone from there on, and its elements are made once more.
/// Elements, their order and positions are those of the dataset itself: a position that was saved
/// with one can be restored with the other. A restored iterator reads alone.
///
/// The elements that readers get are copies; if copies share memory (tensors), do not write into
/// it. Give every reader the same dataset: one that each makes for itself is not the same.
///
/// TensorFlow: sharing of tf.data service among trainers (CrossTrainerCache), where slow trainers
/// miss elements; here none does. Python: itertools.tee.
/// Thread-safety: all functions from any thread; each dataset by its reader.
class SharedReaders {
 public:
  /// Throws kInvalidArgument if `readers` or `max_ahead` is less than 1.
  explicit SharedReaders(SharedReadersOptions options)
      : group_(std::make_shared<internal::ReaderGroup>(std::move(options))) {}

  /// The elements of `dataset`, for one reader. Throws kOutOfRange for a reader that does not
  /// exist.
  template <class T>
  Dataset<T> dataset(const Dataset<T>& dataset, int reader) const {
    check_reader(reader);
    return Dataset<T>(
        std::make_shared<const internal::SharedNode<T>>(dataset.node(), group_, reader));
  }
  /// The reader reads no more: nobody waits for it. If its datasets are used nevertheless, they are
  /// read alone.
  void end(int reader) const {
    check_reader(reader);
    group_->end(reader);
  }
  /// How many elements were made for readers together so far.
  std::int64_t elements_read() const { return group_->elements_read(); }

 private:
  void check_reader(int reader) const;

  std::shared_ptr<internal::ReaderGroup> group_;
};

}  // namespace brigade::data
