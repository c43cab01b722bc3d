#pragma once

#include <algorithm>
#include <concepts>
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
/// tuples, pairs and types that name their fields, and for tensors where their headers are
/// included. For your own type, specialize it with the same members.
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

namespace internal {

template <class T>
using PaddingOptions = typename Padding<T>::Options;

}  // namespace internal

/// Each part of a tuple or pair, and each field of a struct (see `HasFields`), is padded
/// separately; the options are a tuple of those of the parts, or a pair.
///
/// Thread-safety: pure functions.
template <internal::StacksByParts T>
struct Padding<T> {
  using Options = typename internal::MapParts<internal::PaddingOptions, T>::Type;
  using Batch = typename Structure<T>::Batch;

  static void check(const Options& options) {
    internal::with_indices<T>([&](auto... i) { (Of<i>::check(std::get<i>(options)), ...); });
  }
  static std::string describe(const Options& options) {
    return internal::with_indices<T>([&](auto... i) {
      return internal::describe_parts({Of<i>::describe(std::get<i>(options))...});
    });
  }
  static Options with_length(const Options& options, std::int64_t length) {
    return internal::with_indices<T>(
        [&](auto... i) { return Options(Of<i>::with_length(std::get<i>(options), length)...); });
  }
  static Batch stack(std::vector<T>&& elements, const Options& options) {
    return internal::from_parts<Batch>([&](auto i) {
      using Field = internal::Part<T, i>;
      using FieldBatch = internal::Part<Batch, i>;
      if constexpr (std::same_as<internal::BatchOf<Field>, FieldBatch>) {
        return Of<i>::stack(internal::take_parts<i>(elements), std::get<i>(options));
      } else {
        return internal::FieldStructure<Field, FieldBatch>::stack(
            internal::take_parts<i>(elements));
      }
    });
  }

 private:
  template <std::size_t i>
  using Of = Padding<internal::Part<T, i>>;
};

}  // namespace brigade::data
