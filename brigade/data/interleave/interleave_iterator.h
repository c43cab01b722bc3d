#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "brigade/data/interleave/inner_walk.h"
#include "brigade/data/interleave/interleave_position.h"
#include "brigade/data/interleave/interleave_turn.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/noted_input.h"

namespace brigade::data::internal {

/// Interleaves on the thread of the consumer, in TensorFlow's order: each open dataset in turn
/// gives a block; one that ends makes way for the dataset of the next element, which begins with
/// the slot's next turn. An element of which no dataset could be made is thrown where its dataset
/// would have begun, and the next element takes the slot.
template <class T, class U>
class InterleaveIterator final : public IteratorBase<U> {
 public:
  InterleaveIterator(NotedInput<T> input, InnerMaker<T, U> maker, InterleaveShape shape)
      : input_(std::move(input)),
        maker_(std::move(maker)),
        shape_(std::move(shape)),
        turn_(shape_.cycle_length, shape_.block_length),
        slots_(shape_.cycle_length) {}

  std::optional<U> next() override {
    while (true) {
      InnerWalk<U>& walk = slots_[turn_.slot()];
      if (walk.iterator) {
        if (auto element = next_of(walk)) return element;
        close(walk);
        turn_.pass_on();
      } else if (!fill(walk)) {
        return std::nullopt;
      }
    }
  }
  std::uint64_t skip(std::uint64_t count) override {
    std::uint64_t passed = 0;
    while (passed < count) {
      InnerWalk<U>& walk = slots_[turn_.slot()];
      if (walk.iterator) {
        passed += skip_in(walk, count - passed);
        continue;
      }
      try {
        if (!fill(walk)) return passed;
      } catch (...) {
        if (maker_.is_cancelled()) throw;
        ++passed;
      }
    }
    return passed;
  }
  io::StateTree save() const override {
    InterleavePosition position{turn_.slot(), turn_.block_index(), input_.here(), {}};
    for (const InnerWalk<U>& walk : slots_) {
      auto& slot = position.slots.emplace_back();
      if (!walk.is_open()) continue;
      slot = InnerPosition{walk.element, std::nullopt, 0};
      if (walk.iterator) slot->state = walk.iterator->save();
    }
    return save_interleave(shape_, position);
  }
  void restore(const io::StateTree& state) override {
    const InterleavePosition position = load_interleave(shape_, state);
    slots_.clear();  // ends their threads before others start
    slots_ = reopen_all(input_, maker_, position);
    open_ = static_cast<std::uint64_t>(std::count_if(
        slots_.begin(), slots_.end(), [](const auto& walk) { return walk.is_open(); }));
    turn_.go_to(position.cycle_index, position.block_index);
    input_has_ended_ = false;
  }
  /// The input is gone back in by counting, so only the dataset whose turn it is can lose anything.
  bool keeps_place_when_cancelled() const override {
    const auto& walk = slots_[turn_.slot()].iterator;
    return !walk || walk->keeps_place_when_cancelled();
  }

  /// Gives the input back, to be gone on with elsewhere.
  NotedInput<T> release_input() && { return std::move(input_); }

 private:
  std::optional<U> next_of(InnerWalk<U>& walk) {
    try {
      auto element = maker_.next(walk);
      if (element) turn_.advance(1);
      return element;
    } catch (...) {
      if (!maker_.is_cancelled()) turn_.advance(1);
      throw;
    }
  }
  std::uint64_t skip_in(InnerWalk<U>& walk, std::uint64_t most) {
    const std::uint64_t wanted = std::min(most, turn_.left());
    const std::uint64_t passed = walk.iterator->skip(wanted);
    turn_.advance(passed);
    if (passed < wanted) {
      close(walk);
      turn_.pass_on();
    }
    return passed;
  }
  /// Puts the dataset of the next element into an empty slot, or goes on to the next slot if there
  /// is none; false at the end of all. Throws if the dataset cannot be made.
  bool fill(InnerWalk<U>& walk) {
    if (!walk.is_open() && !input_has_ended_) open(walk);
    if (walk.error) {
      const std::exception_ptr error = walk.error;
      if (!maker_.is_cancelled()) close(walk);
      std::rethrow_exception(error);
    }
    if (walk.iterator) return true;
    if (open_ == 0) return false;
    turn_.pass_on();
    return true;
  }
  void open(InnerWalk<U>& walk) {
    auto element = input_.next();
    input_has_ended_ = element.outcome.is_end();
    if (input_has_ended_) return;
    walk = maker_.open(std::move(element.at), std::move(element.outcome));
    ++open_;
  }
  void close(InnerWalk<U>& walk) {
    walk.close();
    --open_;
  }

  NotedInput<T> input_;
  InnerMaker<T, U> maker_;
  InterleaveShape shape_;
  Turn turn_;
  std::vector<InnerWalk<U>> slots_;
  std::uint64_t open_ = 0;  // slots that are
  bool input_has_ended_ = false;
};

}  // namespace brigade::data::internal
