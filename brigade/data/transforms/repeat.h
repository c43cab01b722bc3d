#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "brigade/data/core/transform.h"

namespace brigade::data {

/// For `repeat`: without end.
inline constexpr std::int64_t kForever = -1;

namespace internal {

/// Returns the transform's name. Throws kInvalidArgument unless `count` is `kForever` or 0 or more.
std::string name_of_repeat(std::int64_t count);

/// The options of one pass; each pass is a separate epoch for the input. Pass p of epoch e is epoch
/// e * count + p of the input, so `repeat(2)` and starting a second epoch give the same orders;
/// with `kForever` it is e * 2^32 + p.
IteratorOptions options_of_pass(IteratorOptions options, std::int64_t count, std::uint64_t pass);

/// A pass whose iterator cannot be created is one element that fails.
template <class T>
class RepeatIterator final : public IteratorBase<T> {
 public:
  RepeatIterator(const Node<T>& input, IteratorOptions options, std::int64_t count)
      : node_(input), options_(options), count_(count) {
    if (!is_at_end()) start_pass();
  }

  std::optional<T> next() override {
    while (!is_at_end()) {
      if (auto element = next_of_pass()) return element;
      end_pass();
    }
    return std::nullopt;
  }
  std::uint64_t skip(std::uint64_t count) override {
    std::uint64_t passed = 0;
    while (passed < count && !is_at_end()) {
      const std::uint64_t part = input_ ? input_->skip(count - passed) : 0;
      if (part > 0) pass_is_empty_ = false;
      passed += part;
      if (passed == count) break;
      try {
        end_pass();
      } catch (...) {
        rethrow_if_cancelled();
        ++passed;
      }
    }
    return passed;
  }
  io::StateTree save() const override {
    return make_position("repeat", {{"pass", pass_}, {"pass_is_empty", pass_is_empty_ ? 1U : 0U}},
                         input_ ? std::optional(input_->save()) : std::nullopt);
  }
  void restore(const io::StateTree& state) override {
    check_position(state, "repeat");
    const bool is_empty = position_number(state, "pass_is_empty") != 0;
    seek(position_number(state, "pass"));
    const bool is_open = has_position_input(state);
    // A pass that is not open and not empty could not be started.
    if (is_open || (is_empty && !is_at_end())) start_pass();
    if (is_open) input_->restore(position_input(state));
    pass_is_empty_ = is_empty;
  }

 private:
  bool is_at_end() const {
    return has_ended_ || (count_ != kForever && pass_ >= static_cast<std::uint64_t>(count_));
  }
  std::optional<T> next_of_pass() {
    if (!input_) return std::nullopt;
    try {
      auto element = input_->next();
      if (element) pass_is_empty_ = false;
      return element;
    } catch (...) {
      pass_is_empty_ = false;
      throw;
    }
  }
  void seek(std::uint64_t pass) {
    input_ = nullptr;  // joins its threads before the next pass starts new ones
    pass_ = pass;
    pass_is_empty_ = true;
    has_ended_ = false;
  }
  void start_pass() {
    pass_is_empty_ = false;
    input_ = node_.iterator(options_of_pass(options_, count_, pass_));
    pass_is_empty_ = true;
  }
  void end_pass() {
    if (pass_is_empty_) {  // nothing to repeat: without this check, kForever would loop forever
      has_ended_ = true;
    } else {
      seek(pass_ + 1);
      if (!is_at_end()) start_pass();
    }
  }

  const Node<T>& node_;
  IteratorOptions options_;
  std::int64_t count_;
  std::uint64_t pass_ = 0;
  bool pass_is_empty_ = true;
  bool has_ended_ = false;
  std::unique_ptr<IteratorBase<T>> input_;  // null at the end, and if it could not be created
};

}  // namespace internal

/// See `Dataset::repeat`.
template <class T>
NodePtr<T> make_repeat(NodePtr<T> input, std::int64_t count) {
  internal::TransformSpec spec{
      .name = internal::name_of_repeat(count),
      .fixed = "repeat",
      .cardinality = [count](std::int64_t all) { return cardinality_of_repeat(all, count); },
      // With endless passes over shards of different sizes, the shards drift into different passes.
      .counts_elements = count == kForever};
  cardinality_of_repeat(input->cardinality(), count);  // throws if the count overflows
  return internal::make_transform<T>(
      std::move(input), std::move(spec),
      [count](const Node<T>& from, const IteratorOptions& job, const Node<T>&) {
        return std::make_unique<internal::RepeatIterator<T>>(from, job, count);
      });
}

}  // namespace brigade::data
