#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "brigade/base/strings.h"
#include "brigade/data/core/cancel_poller.h"
#include "brigade/data/core/cardinality.h"
#include "brigade/data/core/node.h"
#include "brigade/data/core/position.h"
#include "brigade/data/dataset.h"
#include "brigade/data/transforms/map.h"

namespace brigade::data {

/// A generator that can save its position, so that a restored iterator continues there directly.
///
/// Thread-safety: one call at a time.
template <class T>
class Generator {
 public:
  virtual ~Generator() = default;
  /// The next element; unset at the end, after which it is not called again.
  virtual std::optional<T> next() = 0;
  /// The position after the last element.
  virtual io::StateTree save() const = 0;
  /// Restores a position that an equal generator saved.
  virtual void restore(const io::StateTree& state) = 0;
};

namespace internal {

/// Iterates over a function that returns the next element, or over a `Generator`.
template <class T, class Source>
class GeneratorIterator final : public IteratorBase<T> {
 public:
  GeneratorIterator(std::function<Source()> make, std::string name, const IteratorOptions& options)
      : make_(std::move(make)),
        name_(std::move(name)),
        epoch_(options.epoch),
        cancel_(options.cancel),
        source_(make_()) {}
  std::optional<T> next() override {
    if (has_ended_) return std::nullopt;
    ++index_;  // counted even if it throws
    auto element = generate();
    if (element) return element;
    --index_;
    has_ended_ = true;
    return std::nullopt;
  }
  io::StateTree save() const override {
    io::StateTree state =
        make_position("from_generator", {{"place", index_}, {"has_ended", has_ended_ ? 1U : 0U}});
    if constexpr (kSaves) state["generator"] = source_->save();
    return state;
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "from_generator");
    const std::uint64_t index = position_number(state, "place");
    const bool has_ended = position_number(state, "has_ended") != 0;
    if constexpr (kSaves) {
      Source source = make_();
      source->restore(state.at("generator"));
      source_ = std::move(source);
      index_ = index;
    } else {
      source_ = make_();
      index_ = 0;
      has_ended_ = false;
      if (cancellable_skip(*this, index, cancel_) != index) {
        throw_data_too_short(base::str_cat("The saved position is after element ", index, " of ",
                                           name_, ", which now gives fewer"));
      }
    }
    has_ended_ = has_ended;
  }

 private:
  static constexpr bool kSaves = std::same_as<Source, std::unique_ptr<Generator<T>>>;

  std::optional<T> generate() {
    try {
      if constexpr (kSaves) {
        return source_->next();
      } else {
        return source_();
      }
    } catch (...) {
      rethrow_at_element(name_, epoch_, index_ - 1);
    }
  }

  std::function<Source()> make_;
  std::string name_;
  std::uint64_t epoch_;
  std::optional<concurrency::CancelToken> cancel_;
  Source source_;
  std::uint64_t index_ = 0;
  bool has_ended_ = false;
};

/// Calls `make` with the options if it takes them.
template <class F>
auto taking_options(F make) {
  if constexpr (std::invocable<const F&, const IteratorOptions&>) {
    return make;
  } else {
    return [make = std::move(make)](const IteratorOptions&) { return make(); };
  }
}

}  // namespace internal

/// A dataset of the elements of a generator. `make` is called for each pass over an epoch, as
/// `make()`, or as `make(const IteratorOptions&)` if the elements depend on seed and epoch. It
/// returns either a function that returns the next element, unset at the end:
///
///   auto squares = data::from_generator<int>([] {
///     return [i = 0]() mutable { return i < 10 ? std::optional(i * i++) : std::nullopt; };
///   }, "squares");
///
/// or a `std::unique_ptr<Generator<T>>`. Restoring a saved position creates a new generator: a
/// `Generator` restores the position; a function is called again for every element up to it. So it
/// must give the same elements in every pass over one epoch. An exception counts as a failed
/// element, and the function is called for the next one after that. `name` is used in messages.
///
/// The cardinality is unknown; set it with `assert_cardinality`. TensorFlow counterpart:
/// Dataset.from_generator.
template <class T, class F>
Dataset<T> from_generator(F make, std::string name = "from_generator") {
  auto taking = internal::taking_options(std::move(make));
  using Made = std::invoke_result_t<decltype(taking)&, const IteratorOptions&>;
  using Function = std::function<std::optional<T>()>;
  constexpr bool kSaves = std::convertible_to<Made, std::unique_ptr<Generator<T>>>;
  static_assert(kSaves || std::convertible_to<Made, Function>,
                "from_generator needs a function that makes either a function that returns "
                "std::optional<T>, or a std::unique_ptr<Generator<T>>");
  using Source = std::conditional_t<kSaves, std::unique_ptr<Generator<T>>, Function>;
  return Dataset<T>(internal::make_source<T>(
      {.name = name}, [make = std::function<Source(const IteratorOptions&)>(std::move(taking)),
                       name](const IteratorOptions& options) {
        return std::make_unique<internal::GeneratorIterator<T, Source>>(
            [&make, options] { return make(options); }, name, options);
      }));
}

}  // namespace brigade::data
