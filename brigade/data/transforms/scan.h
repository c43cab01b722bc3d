#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "brigade/base/strings.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/codec.h"
#include "brigade/data/core/transform.h"
#include "brigade/data/transforms/map.h"

namespace brigade::data {

namespace internal {

/// Converts an encoded value to a leaf of a saved state, in hexadecimal digits, and back. Throws
/// kInvalidArgument if the leaf is not such a value.
io::StateTree state_of_encoded(std::string_view bytes);
std::string encoded_of_state(const io::StateTree& state);

template <class State, class F, class T>
struct ScanTraits {
  static_assert(std::copy_constructible<State>, "The state of scan must be a type with copies");
  static_assert(std::invocable<const F&, const State&, T>,
                "The function of scan must be callable as fn(const state&, element), return a pair "
                "of the next state and the new element, and be const (no mutable lambda)");
  using Pair = std::invoke_result_t<const F&, const State&, T>;
  static_assert(std::tuple_size_v<Pair> == 2 &&
                    std::convertible_to<std::tuple_element_t<0, Pair>, State>,
                "The function of scan must return a pair of the next state and the new element");
  using Result = std::remove_cvref_t<std::tuple_element_t<1, Pair>>;
};

/// Shared by all iterators of one scan.
template <class State, class F, class T>
struct ScanCall {
  std::shared_ptr<const F> function;
  State initial;
  std::string where;
};

template <class State, class F, class T>
class ScanIterator final : public IteratorBase<typename ScanTraits<State, F, T>::Result> {
 public:
  using Result = typename ScanTraits<State, F, T>::Result;

  ScanIterator(const Node<T>& input, const IteratorOptions& options, ScanCall<State, F, T> call)
      : node_(input), options_(options), call_(std::move(call)), state_(call_.initial) {
    start();
  }
  std::optional<Result> next() override {
    ++index_;  // counted even if it throws; the state does not change then
    auto element = input_->next();
    if (element) return advance(std::move(*element));
    --index_;
    return std::nullopt;
  }
  io::StateTree save() const override {
    if constexpr (Encodable<State>) {
      io::StateTree state = make_position("scan", {{"place", index_}}, input_->save());
      state["state"] = state_of_encoded(encode(state_));
      return state;
    } else {
      return make_position("scan", {{"place", index_}});
    }
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "scan");
    const std::uint64_t index = position_number(state, "place");
    if constexpr (Encodable<State>) {
      State restored = decode<State>(encoded_of_state(state.at("state")));
      input_->restore(position_input(state));
      state_ = std::move(restored);
      index_ = index;
    } else {
      check_source_position(index, node_.cardinality(), node_.describe());
      start();
      if (cancellable_skip(*this, index, options_.cancel) == index) return;
      throw_data_too_short(base::str_cat("The saved scan had read ", index,
                                         " elements, but its input now has fewer"));
    }
  }

 private:
  void start() {
    input_ = node_.iterator(options_);  // the old iterator is kept if this throws
    state_ = call_.initial;
    index_ = 0;
  }
  Result advance(T&& element) {
    try {
      auto result = (*call_.function)(std::as_const(state_), std::move(element));
      state_ = std::move(std::get<0>(result));
      return std::move(std::get<1>(result));
    } catch (...) {
      rethrow_at_element(call_.where, options_.epoch, index_ - 1);
    }
  }

  const Node<T>& node_;
  IteratorOptions options_;
  ScanCall<State, F, T> call_;
  std::unique_ptr<IteratorBase<T>> input_;
  State state_;
  std::uint64_t index_ = 0;
};

}  // namespace internal

/// See `Dataset::scan`.
template <class T, class State, class F>
NodePtr<typename internal::ScanTraits<State, F, T>::Result> make_scan(NodePtr<T> input,
                                                                      State initial, F function) {
  using Result = typename internal::ScanTraits<State, F, T>::Result;
  return internal::make_transform<Result>(
      std::move(input),
      // Each shard has a separate state.
      {.name = "scan", .counts_elements = true, .rereads_input = true},
      [initial = std::move(initial), shared = std::make_shared<const F>(std::move(function))](
          const Node<T>& from, const IteratorOptions& job, const Node<Result>& self) {
        return std::make_unique<internal::ScanIterator<State, F, T>>(
            from, job, internal::ScanCall<State, F, T>{shared, initial, self.describe()});
      });
}

}  // namespace brigade::data
