#pragma once

#include <cstdint>

namespace brigade::data {

/// The cardinality of a dataset that never ends.
inline constexpr std::int64_t kInfinite = -1;
/// The cardinality of a dataset whose length is not known before it is read.
inline constexpr std::int64_t kUnknown = -2;

/// The cardinality of a transform's result, from that of its input. A cardinality is a count,
/// `kInfinite` or `kUnknown`.
std::int64_t cardinality_of_take(std::int64_t input, std::int64_t count);
std::int64_t cardinality_of_skip(std::int64_t input, std::int64_t count);
/// `count` is a number of passes or `kForever`. Throws kInvalidArgument if the product overflows.
std::int64_t cardinality_of_repeat(std::int64_t input, std::int64_t count);
/// Rounds up, unless the last batch is dropped when it is not full.
std::int64_t cardinality_of_batch(std::int64_t input, std::int64_t size, bool drops_remainder);
/// Of shard `index` of `count`, which has every `count`-th element.
std::int64_t cardinality_of_shard(std::int64_t input, std::int64_t count, std::int64_t index);

/// `a + b` and `a * b`, or the largest number if the result does not fit.
std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b);
std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b);

}  // namespace brigade::data
