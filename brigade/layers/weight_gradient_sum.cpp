#include "brigade/layers/weight_gradient_sum.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "brigade/layers/vector_tiles.h"

namespace brigade::layers {
namespace {

// Inputs are packed by blocks of this many columns, of all examples: whole tiles.
constexpr std::int64_t kPackedColumns = 64;

}  // namespace

void pack_inputs(const float* x, std::int64_t examples, std::int64_t in, float* packed_x) {
  for (std::int64_t first = 0; first < in; first += kPackedColumns) {
    const std::int64_t columns = std::min(kPackedColumns, in - first);
    for (std::int64_t example = 0; example < examples; ++example)
      packed_x = std::copy_n(x + example * in + first, columns, packed_x);
  }
}

#if BRIGADE_HAS_VECTOR_TILES

namespace {

struct SumShape {
  std::span<const WeightGradientSummand> summands;
  std::int64_t in, out;
};

/// A part of the sum: of the rows from `output` on, `kVectors` vectors from `column`.
template <int kLanes, int kVectors>
struct SumTile {
  using Vector = typename TileVectors<kLanes>::Aligned;
  using Memory = typename TileVectors<kLanes>::Unaligned;
  const SumShape& shape;
  std::int64_t output, column;
  float* sum;

  template <int kRows>
  BRIGADE_INLINE void run(std::int64_t row) const {
    Vector kept[kMostKeptSums][kRows][kVectors];
    Vector last[kRows][kVectors];
    int size = 0;
    for (const WeightGradientSummand& summand : shape.summands) {
      if (&summand != shape.summands.data()) {
        for (int r = 0; r < kRows; ++r)
          for (int v = 0; v < kVectors; ++v) kept[size][r][v] = last[r][v];
        ++size;
      }
      if (summand.value != nullptr) {
        load<kRows>(summand.value + at(row), last);
      } else {
        multiply<kRows>(summand, output + row, last);
      }
      for (int i = 0; i < summand.additions; ++i) {
        --size;
        for (int r = 0; r < kRows; ++r)
          for (int v = 0; v < kVectors; ++v) last[r][v] = kept[size][r][v] + last[r][v];
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) keep(sum + at(row + r) + v * kLanes, last[r][v]);
  }

  BRIGADE_INLINE std::int64_t at(std::int64_t row) const {
    return (output + row) * shape.in + column;
  }

  template <int kRows>
  BRIGADE_INLINE void load(const float* from, Vector (&to)[kRows][kVectors]) const {
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        to[r][v] = *reinterpret_cast<const Memory*>(from + r * shape.in + v * kLanes);
  }

  template <int kRows>
  BRIGADE_INLINE void multiply(const WeightGradientSummand& summand, std::int64_t first,
                               Vector (&to)[kRows][kVectors]) const {
    const std::int64_t examples = summand.examples;
    const std::int64_t block = column / kPackedColumns * kPackedColumns;
    const std::int64_t stride = std::min(kPackedColumns, shape.in - block);
    const float* const x = summand.packed_x + block * examples + (column - block);
    const float* const dy = summand.transposed_dy + first * examples;
    Vector product[kRows][kVectors] = {};
    for (std::int64_t example = 0; example < examples; ++example) {
      Vector values[kVectors];
      for (int v = 0; v < kVectors; ++v)
        values[v] = *reinterpret_cast<const Memory*>(x + example * stride + v * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const Vector gradient = Vector{} + dy[r * examples + example];
        for (int v = 0; v < kVectors; ++v) product[r][v] += gradient * values[v];
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) to[r][v] = product[r][v];
  }

  /// Past the caches where that is possible: a gradient is larger than they are, and whoever reads
  /// it next does so later.
  BRIGADE_INLINE static void keep(float* to, const Vector& value) {
#if defined(__clang__)
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof(Vector) == 0) {
      __builtin_nontemporal_store(value, reinterpret_cast<Vector*>(to));
      return;
    }
#endif
    *reinterpret_cast<Memory*>(to) = value;
  }
};

/// Columns for which the inputs of all examples stay in the second-level cache.
std::int64_t columns_in_cache(const SumShape& shape) {
  constexpr std::int64_t kFloats = 32 * 1024;
  std::int64_t rows = 1;
  for (const WeightGradientSummand& summand : shape.summands) rows += summand.examples;
  return std::max<std::int64_t>(kFloats / rows / kPackedColumns, 1) * kPackedColumns;
}

/// Of the outputs [begin, end).
template <int kLanes, int kRows, int kVectors>
BRIGADE_INLINE void sum_between(const SumShape& shape, std::int64_t columns, std::int64_t begin,
                                std::int64_t end, float* sum) {
  constexpr std::int64_t kWide = kLanes * kVectors;
  for (std::int64_t first = 0; first < shape.in; first += columns) {
    const std::int64_t last = std::min(first + columns, shape.in);
    for (std::int64_t o = begin; o < end; o += kRows) {
      const std::int64_t outputs = std::min<std::int64_t>(kRows, end - o);
      std::int64_t i = first;
      for (; i + kWide <= last; i += kWide)
        for_each_tile<kRows>(outputs, SumTile<kLanes, kVectors>{shape, o, i, sum});
      for (; i < last; i += kLanes)
        for_each_tile<kRows>(outputs, SumTile<kLanes, 1>{shape, o, i, sum});
    }
  }
  __builtin_ia32_sfence();
}

// As in small_batch_products.cpp.
__attribute__((target("avx512f,avx2,fma"))) void sum_avx512(const SumShape& shape,
                                                            std::int64_t columns,
                                                            std::int64_t begin, std::int64_t end,
                                                            float* sum) {
  sum_between<16, 4, 4>(shape, columns, begin, end, sum);
}
__attribute__((target("avx2,fma"))) void sum_avx2(const SumShape& shape, std::int64_t columns,
                                                  std::int64_t begin, std::int64_t end,
                                                  float* sum) {
  sum_between<8, 4, 2>(shape, columns, begin, end, sum);
}

}  // namespace

void sum_of_weight_gradients(std::span<const WeightGradientSummand> summands, std::int64_t in,
                             std::int64_t out, float* sum) {
  constexpr std::int64_t kGrain = 64;
  const SumShape shape{summands, in, out};
  const std::int64_t columns = columns_in_cache(shape);
  const auto kernel = vector_instructions() == VectorInstructions::kAvx512 ? sum_avx512 : sum_avx2;
  at::parallel_for(0, (out + kGrain - 1) / kGrain, 1, [&](std::int64_t begin, std::int64_t end) {
    kernel(shape, columns, begin * kGrain, std::min(end * kGrain, out), sum);
  });
}

#else

// Nobody calls it: `SmallBatchProducts::are_supported` is false.
void sum_of_weight_gradients(std::span<const WeightGradientSummand>, std::int64_t, std::int64_t,
                             float*) {}

#endif

}  // namespace brigade::layers
