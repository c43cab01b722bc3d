#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/data/core/node.h"
#include "brigade/data/core/replayable_input.h"
#include "brigade/data/interleave/inner_iterator.h"
#include "brigade/data/interleave/interleave_position.h"

namespace brigade::data::internal {

/// Interleaves on the thread of the consumer, in TensorFlow's order: the open datasets give a block
/// each in round-robin order. A dataset that ends is replaced by the dataset of the next element,
/// which starts in the slot's next round. If a dataset cannot be created, the error is thrown where
/// its first element would have been, and the next element takes the slot.
template <class T, class U>
class InterleaveIterator final : public IteratorBase<U> {
 public:
  InterleaveIterator(ReplayableInput<T> input, InnerMaker<T, U> maker, InterleaveShape shape)
      : input_(std::move(input)),
        maker_(std::move(maker)),
        shape_(std::move(shape)),
        round_robin_(shape_.cycle_length, shape_.block_length),
        slots_(shape_.cycle_length) {}

  std::optional<U> next() override {
    while (true) {
      InnerIterator<U>& inner = slots_[round_robin_.slot()];
      if (inner.iterator) {
        if (auto element = next_of(inner)) return element;
        close(inner);
        round_robin_.advance_slot();
      } else if (!fill(inner)) {
        return std::nullopt;
      }
    }
  }
  std::uint64_t skip(std::uint64_t count) override {
    std::uint64_t passed = 0;
    while (passed < count) {
      InnerIterator<U>& inner = slots_[round_robin_.slot()];
      if (inner.iterator) {
        passed += skip_in(inner, count - passed);
        continue;
      }
      try {
        if (!fill(inner)) return passed;
      } catch (...) {
        if (maker_.is_cancelled()) throw;
        ++passed;
      }
    }
    return passed;
  }
  io::StateTree save() const override {
    InterleavePosition position{
        round_robin_.slot(), round_robin_.block_index(), input_.position(), {}};
    for (const InnerIterator<U>& inner : slots_) {
      auto& slot = position.slots.emplace_back();
      if (!inner.is_open()) continue;
      slot = InnerPosition{inner.element, std::nullopt, 0};
      if (inner.iterator) slot->state = inner.iterator->save();
    }
    return save_interleave(shape_, position);
  }
  void restore(const io::StateTree& state) override {
    const InterleavePosition position = load_interleave(shape_, state);
    slots_.clear();  // ends their threads before new ones start
    slots_ = reopen_all(input_, maker_, position);
    open_ = static_cast<std::uint64_t>(std::count_if(
        slots_.begin(), slots_.end(), [](const auto& inner) { return inner.is_open(); }));
    round_robin_.seek(position.cycle_index, position.block_index);
    input_has_ended_ = false;
  }
  /// The input is restored from a replay point, so only the current dataset can lose its position.
  bool keeps_position_when_cancelled() const override {
    const auto& inner = slots_[round_robin_.slot()].iterator;
    return !inner || inner->keeps_position_when_cancelled();
  }

  /// Releases the input, to be continued elsewhere.
  ReplayableInput<T> release_input() && { return std::move(input_); }

 private:
  std::optional<U> next_of(InnerIterator<U>& inner) {
    try {
      auto element = maker_.next(inner);
      if (element) round_robin_.advance(1);
      return element;
    } catch (...) {
      if (!maker_.is_cancelled()) round_robin_.advance(1);
      throw;
    }
  }
  std::uint64_t skip_in(InnerIterator<U>& inner, std::uint64_t most) {
    const std::uint64_t wanted = std::min(most, round_robin_.remaining_in_block());
    const std::uint64_t passed = inner.iterator->skip(wanted);
    round_robin_.advance(passed);
    if (passed < wanted) {
      close(inner);
      round_robin_.advance_slot();
    }
    return passed;
  }
  /// Puts the dataset of the next element into an empty slot, or advances to the next slot if the
  /// input has ended; false at the end of all datasets. Throws if the dataset cannot be created.
  bool fill(InnerIterator<U>& inner) {
    if (!inner.is_open() && !input_has_ended_) open(inner);
    if (inner.error) {
      const std::exception_ptr error = inner.error;
      if (!maker_.is_cancelled()) close(inner);
      std::rethrow_exception(error);
    }
    if (inner.iterator) return true;
    if (open_ == 0) return false;
    round_robin_.advance_slot();
    return true;
  }
  void open(InnerIterator<U>& inner) {
    auto element = input_.next();
    input_has_ended_ = element.result.is_end();
    if (input_has_ended_) return;
    inner = maker_.open(std::move(element.at), std::move(element.result));
    ++open_;
  }
  void close(InnerIterator<U>& inner) {
    inner.close();
    --open_;
  }

  ReplayableInput<T> input_;
  InnerMaker<T, U> maker_;
  InterleaveShape shape_;
  RoundRobin round_robin_;
  std::vector<InnerIterator<U>> slots_;
  std::uint64_t open_ = 0;  // number of open slots
  bool input_has_ended_ = false;
};

}  // namespace brigade::data::internal
