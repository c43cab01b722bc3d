#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/random.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/element_result.h"
#include "brigade/data/core/transform.h"

namespace brigade::data {

/// Options of `Dataset::shuffle`.
struct ShuffleOptions {
  /// Number of elements held in memory to draw from. 1 keeps the input's order; the dataset's size
  /// or more shuffles uniformly.
  std::int64_t buffer_size = 1;
  /// Seed of the orders, independent of the job's seed. Unset: derived from the job's root seed and
  /// from the position of this shuffle in the pipeline.
  std::optional<std::uint64_t> seed{};
  /// If false, every epoch repeats the same order.
  bool reshuffle_each_iteration = true;
};

namespace internal {

/// Returns the transform's name for messages. Throws kInvalidArgument if the buffer size is less
/// than 1.
std::string name_of_shuffle(const ShuffleOptions& options);

/// The progress of a shuffle: `filled` elements were read from the input, `drawn` of them returned.
struct ShuffleProgress {
  std::uint64_t filled = 0;
  std::uint64_t drawn = 0;
};

/// Replays the draws from the start of the epoch, without the elements: returns which input element
/// is in each slot of the buffer, and `rng` as it is before the next draw. Throws kCancelled on
/// cancellation.
struct ReplayedBuffer {
  std::vector<std::uint64_t> indices;
  base::CounterRng rng;
};
ReplayedBuffer replay_shuffle(std::uint64_t key, std::uint64_t buffer_size,
                              ShuffleProgress progress,
                              const std::optional<concurrency::CancelToken>& cancel);

io::StateTree save_shuffle(std::uint64_t key, std::uint64_t buffer_size, ShuffleProgress progress);
ShuffleProgress load_shuffle(const io::StateTree& state, std::uint64_t key,
                             std::uint64_t buffer_size);
/// The slots in the order of the input elements they hold.
std::vector<std::size_t> slots_by_index(const std::vector<std::uint64_t>& indices);
/// Throws kInvalidArgument: the input has fewer elements than the shuffle had read.
[[noreturn]] void throw_input_too_short(std::uint64_t filled);

template <class T>
class ShuffleIterator final : public IteratorBase<T> {
 public:
  ShuffleIterator(const Node<T>& input, const IteratorOptions& job, std::uint64_t key,
                  std::uint64_t buffer_size)
      : node_(input),
        job_(job),
        key_(key),
        buffer_size_(buffer_size),
        rng_(key),
        input_(input.iterator(job)) {}

  std::optional<T> next() override {
    fill();
    if (buffer_.empty()) return std::nullopt;
    const auto slot = static_cast<std::size_t>(rng_.uniform_below(buffer_.size()));
    ElementResult<T> drawn = std::move(buffer_[slot]);
    if (slot + 1 != buffer_.size()) buffer_[slot] = std::move(buffer_.back());
    buffer_.pop_back();
    ++progress_.drawn;
    return std::move(drawn).take();
  }
  io::StateTree save() const override { return save_shuffle(key_, buffer_size_, progress_); }
  /// Re-reads from the input only the elements in the buffer.
  void restore(const io::StateTree& state) override {
    const ShuffleProgress progress = load_shuffle(state, key_, buffer_size_);
    check_source_position(progress.filled, node_.cardinality(), node_.describe());
    ReplayedBuffer replayed = replay_shuffle(key_, buffer_size_, progress, job_.cancel);
    input_ = node_.iterator(job_);
    buffer_.clear();
    buffer_.resize(replayed.indices.size());
    std::uint64_t position = 0;
    const auto pass_to = [&](std::uint64_t target) {
      const std::uint64_t distance = target - position;
      if (cancellable_skip(*input_, distance, job_.cancel) != distance) {
        throw_input_too_short(progress.filled);
      }
      position = target;
    };
    for (const std::size_t slot : slots_by_index(replayed.indices)) {
      pass_to(replayed.indices[slot]);
      buffer_[slot] = result_unless_cancelled(*input_, job_.cancel);
      if (buffer_[slot].is_end()) throw_input_too_short(progress.filled);
      ++position;
    }
    pass_to(progress.filled);
    rng_ = replayed.rng;
    progress_ = progress;
    input_has_ended_ = false;
  }

 private:
  void fill() {
    while (!input_has_ended_ && buffer_.size() < buffer_size_) {
      // A failed element keeps its slot and fails when it is drawn, so that the order of the others
      // does not depend on it.
      ElementResult<T> result = result_unless_cancelled(*input_, job_.cancel);
      input_has_ended_ = result.is_end();
      if (input_has_ended_) return;
      buffer_.push_back(std::move(result));
      ++progress_.filled;
    }
  }

  const Node<T>& node_;
  IteratorOptions job_;
  std::uint64_t key_;
  std::uint64_t buffer_size_;
  base::CounterRng rng_;
  std::unique_ptr<IteratorBase<T>> input_;
  std::vector<ElementResult<T>> buffer_;
  ShuffleProgress progress_;
  bool input_has_ended_ = false;
};

}  // namespace internal

/// See `Dataset::shuffle`.
template <class T>
NodePtr<T> make_shuffle(NodePtr<T> input, const ShuffleOptions& options) {
  return internal::make_transform<T>(
      std::move(input), {.name = internal::name_of_shuffle(options), .rereads_input = true},
      [options](const Node<T>& from, const IteratorOptions& job, const Node<T>& self) {
        const std::uint64_t epoch = options.reshuffle_each_iteration ? job.epoch : 0;
        return std::make_unique<internal::ShuffleIterator<T>>(
            from, job, internal::key_of_stream("shuffle", options.seed, job, self.depth(), epoch),
            static_cast<std::uint64_t>(options.buffer_size));
      });
}

}  // namespace brigade::data
