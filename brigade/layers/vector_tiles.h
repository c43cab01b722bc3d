#pragma once

#include <ATen/Version.h>

#include <cstdint>
#include <string>

namespace brigade::layers {

// What the kernels of dense layers share (SmallBatchProducts, weight_gradient_sum). Internal.

/// The vector instructions that this processor has, and that libtorch may use (the environment
/// variable ATEN_CPU_CAPABILITY).
enum class VectorInstructions { kNone, kAvx2, kAvx512 };

#if defined(__x86_64__) && defined(__GNUC__)
#define BRIGADE_HAS_VECTOR_TILES 1
#else
#define BRIGADE_HAS_VECTOR_TILES 0
#endif

inline VectorInstructions vector_instructions() {
#if BRIGADE_HAS_VECTOR_TILES
  static const VectorInstructions found = [] {
    const std::string capability = at::get_cpu_capability();
    if (capability == "AVX512") return VectorInstructions::kAvx512;
    return capability == "AVX2" ? VectorInstructions::kAvx2 : VectorInstructions::kNone;
  }();
  return found;
#else
  return VectorInstructions::kNone;
#endif
}

#if BRIGADE_HAS_VECTOR_TILES

/// Functions with this attribute are inlined into one function for each instruction set, so none
/// takes or returns a vector: that would be another calling convention for each.
#define BRIGADE_INLINE [[gnu::always_inline]] inline

template <int kLanes>
struct TileVectors {
  using Aligned [[gnu::vector_size(kLanes * sizeof(float))]] = float;
  using Unaligned
      [[gnu::vector_size(kLanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] =
          float;
};

/// Calls `work.run<kRows>(first)` for tiles of `kTile` of `count` rows, then of 2, then of 1.
template <int kTile, class Work>
BRIGADE_INLINE void for_each_tile(std::int64_t count, const Work& work) {
  std::int64_t row = 0;
  for (; row + kTile <= count; row += kTile) work.template run<kTile>(row);
  for (; row + 2 <= count; row += 2) work.template run<2>(row);
  for (; row < count; ++row) work.template run<1>(row);
}

#endif

}  // namespace brigade::layers
