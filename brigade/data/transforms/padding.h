#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/data/core/structure.h"

namespace brigade::data {

/// How elements of type T are padded to one length and combined into a batch, for `padded_batch`
/// and `bucket_by_sequence_length`. This primary template is for elements without a length, such as
/// numbers and labels, which are not padded. There are specializations for vectors of numbers,
/// tuples and pairs, and for tensors where their headers are included. For your own type,
/// specialize it with the same members.
///
/// Thread-safety: pure functions.
template <class T>
struct Padding {
  struct Options {};

  /// Throws kInvalidArgument for options that no element can satisfy.
  static void check(const Options&) {}
  /// For pipeline descriptions: ", to length 8, with -1". Empty if no option is set.
  static std::string describe(const Options&) { return {}; }
  /// The options with every unset length set to `length`.
  static Options with_length(const Options& options, std::int64_t /*length*/) { return options; }
  /// Combines the elements into one batch, in order. There is at least one. Throws
  /// kInvalidArgument, naming both lengths, if an element is longer than the padded length.
  static typename Structure<T>::Batch stack(std::vector<T>&& elements, const Options&) {
    return Structure<T>::stack(std::move(elements));
  }
};

template <class Number>
struct VectorPadding {
  /// The padded length of each vector. Unset: the longest of its batch.
  std::optional<std::int64_t> length{};
  /// Appended to shorter vectors.
  Number value{};
};

namespace internal {

void check_padded_length(std::optional<std::int64_t> length);
/// The padded length; throws kInvalidArgument if `longest` is greater.
std::size_t padded_length(std::optional<std::int64_t> length, std::size_t longest);
/// The descriptions of the parts of a tuple, each with its index: ", part 1 (to length 8)". Empty
/// descriptions are omitted.
std::string describe_parts(const std::vector<std::string>& parts);

}  // namespace internal

/// Thread-safety: pure functions.
template <class Number>
requires std::is_arithmetic_v<Number>
struct Padding<std::vector<Number>> {
  using Options = VectorPadding<Number>;

  static void check(const Options& options) { internal::check_padded_length(options.length); }
  static std::string describe(const Options& options) {
    std::string text;
    if (options.length) text += base::str_cat(", to length ", *options.length);
    if (options.value != Number()) text += base::str_cat(", with ", options.value);
    return text;
  }
  static Options with_length(const Options& options, std::int64_t length) {
    return {options.length.value_or(length), options.value};
  }
  static std::vector<std::vector<Number>> stack(std::vector<std::vector<Number>>&& elements,
                                                const Options& options) {
    std::size_t longest = 0;
    for (const auto& element : elements) longest = std::max(longest, element.size());
    const std::size_t length = internal::padded_length(options.length, longest);
    for (auto& element : elements) element.resize(length, options.value);
    return std::move(elements);
  }
};

/// Each part of the elements is padded separately; the options are a tuple of those of the parts.
///
/// Thread-safety: pure functions.
template <class... T>
struct Padding<std::tuple<T...>> {
  using Options = std::tuple<typename Padding<T>::Options...>;
  using Batch = typename Structure<std::tuple<T...>>::Batch;

  static void check(const Options& options) {
    std::apply([](const auto&... part) { (Padding<T>::check(part), ...); }, options);
  }
  static std::string describe(const Options& options) {
    return std::apply(
        [](const auto&... part) {
          return internal::describe_parts({Padding<T>::describe(part)...});
        },
        options);
  }
  static Options with_length(const Options& options, std::int64_t length) {
    return std::apply(
        [&](const auto&... part) { return Options(Padding<T>::with_length(part, length)...); },
        options);
  }
  static Batch stack(std::vector<std::tuple<T...>>&& elements, const Options& options) {
    return stack_parts(elements, options, std::index_sequence_for<T...>());
  }

 private:
  template <std::size_t... I>
  static Batch stack_parts(std::vector<std::tuple<T...>>& elements, const Options& options,
                           std::index_sequence<I...>) {
    return Batch(stack_part<I, T>(elements, std::get<I>(options))...);
  }
  template <std::size_t I, class Part>
  static auto stack_part(std::vector<std::tuple<T...>>& elements,
                         const typename Padding<Part>::Options& options) {
    std::vector<Part> parts;
    parts.reserve(elements.size());
    for (auto& element : elements) parts.push_back(std::move(std::get<I>(element)));
    return Padding<Part>::stack(std::move(parts), options);
  }
};

/// As tuples; the options are a pair.
///
/// Thread-safety: pure functions.
template <class A, class B>
struct Padding<std::pair<A, B>> {
  using Options = std::pair<typename Padding<A>::Options, typename Padding<B>::Options>;
  using Batch = typename Structure<std::pair<A, B>>::Batch;

  static void check(const Options& options) {
    Padding<A>::check(options.first);
    Padding<B>::check(options.second);
  }
  static std::string describe(const Options& options) {
    return internal::describe_parts(
        {Padding<A>::describe(options.first), Padding<B>::describe(options.second)});
  }
  static Options with_length(const Options& options, std::int64_t length) {
    return {Padding<A>::with_length(options.first, length),
            Padding<B>::with_length(options.second, length)};
  }
  static Batch stack(std::vector<std::pair<A, B>>&& elements, const Options& options) {
    std::vector<A> firsts;
    std::vector<B> seconds;
    for (auto& [first, second] : elements) {
      firsts.push_back(std::move(first));
      seconds.push_back(std::move(second));
    }
    return {Padding<A>::stack(std::move(firsts), options.first),
            Padding<B>::stack(std::move(seconds), options.second)};
  }
};

}  // namespace brigade::data
