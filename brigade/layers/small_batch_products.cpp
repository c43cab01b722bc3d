#include "brigade/layers/small_batch_products.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#include "brigade/layers/vector_tiles.h"

namespace brigade::layers {
namespace {

struct Shape {
  std::int64_t examples, in, out;
};

#if BRIGADE_HAS_VECTOR_TILES

/// Rows of weights that are used next. They are far apart: no processor foresees them. They are
/// requested a few at a time, between the tiles of examples: many at once wait for one another.
struct NextWeights {
  const float* first;
  std::int64_t stride, rows, floats, examples;

  template <int kRows>
  BRIGADE_INLINE void prefetch(std::int64_t example) const {
    constexpr std::int64_t kLine = 64 / sizeof(float);
    const std::int64_t begin = rows * example / examples;
    const std::int64_t end = rows * (example + kRows) / examples;
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t i = 0; i < floats; i += kLine)
        __builtin_prefetch(first + row * stride + i, 0, 2);
  }
};

// Inputs of a block of weights that stays in the first-level cache for all examples.
constexpr std::int64_t kInputBlock = 448;
// Rows of weights that are added up before they are added to a gradient: this decides its bits.
constexpr std::int64_t kOutputBlock = 16;

/// Adds a block of inputs to the sums of `kOutputs` outputs, each a vector.
template <int kLanes, int kOutputs>
struct OutputTile {
  using Vector = typename TileVectors<kLanes>::Aligned;
  using Memory = typename TileVectors<kLanes>::Unaligned;
  const float *x, *w;
  std::int64_t in, inputs;
  Vector* sums;  // [example][output]
  NextWeights next;

  template <int kRows>
  BRIGADE_INLINE void run(std::int64_t example) const {
    next.prefetch<kRows>(example);
    Vector sum[kRows][kOutputs];
    Vector* const kept = sums + example * kOutputs;
    const float* const rows = x + example * in;
    for (int r = 0; r < kRows; ++r)
      for (int o = 0; o < kOutputs; ++o) sum[r][o] = kept[r * kOutputs + o];
    for (std::int64_t i = 0; i < inputs; i += kLanes) {
      Vector weights[kOutputs];
      for (int o = 0; o < kOutputs; ++o)
        weights[o] = *reinterpret_cast<const Memory*>(w + o * in + i);
      for (int r = 0; r < kRows; ++r) {
        const Vector value = *reinterpret_cast<const Memory*>(rows + r * in + i);
        for (int o = 0; o < kOutputs; ++o) sum[r][o] += value * weights[o];
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int o = 0; o < kOutputs; ++o) kept[r * kOutputs + o] = sum[r][o];
  }
};

/// Of the vectors' elements, in pairs.
template <int kLanes>
BRIGADE_INLINE float sum_of(const typename TileVectors<kLanes>::Aligned& vector) {
  float values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = vector[i];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) values[i] += values[i + half];
  return values[0];
}

/// `following`: how many outputs are computed after these, at most as many.
template <int kLanes, int kRows, int kOutputs>
BRIGADE_INLINE void some_outputs(const Shape& shape, const float* x, const float* w, float* y,
                                 std::int64_t following) {
  using Vector = typename TileVectors<kLanes>::Aligned;
  Vector sums[SmallBatchProducts::kMostExamples * kOutputs];
  for (std::int64_t i = 0; i < shape.examples * kOutputs; ++i) sums[i] = Vector{};
  for (std::int64_t i = 0; i < shape.in; i += kInputBlock) {
    const std::int64_t inputs = std::min(kInputBlock, shape.in - i);
    const NextWeights next{w + kOutputs * shape.in + i, shape.in, following, inputs,
                           shape.examples};
    for_each_tile<kRows>(shape.examples,
                         OutputTile<kLanes, kOutputs>{x + i, w + i, shape.in, inputs, sums, next});
  }
  for (std::int64_t example = 0; example < shape.examples; ++example)
    for (int o = 0; o < kOutputs; ++o)
      y[example * shape.out + o] = sum_of<kLanes>(sums[example * kOutputs + o]);
}

template <int kLanes, int kRows, int kOutputs>
BRIGADE_INLINE void outputs_between(const Shape& shape, const float* x, const float* w, float* y,
                                    std::int64_t begin, std::int64_t end) {
  std::int64_t o = begin;
  for (; o + kOutputs <= end; o += kOutputs)
    some_outputs<kLanes, kRows, kOutputs>(shape, x, w + o * shape.in, y + o,
                                          std::min<std::int64_t>(kOutputs, end - o - kOutputs));
  for (; o + 2 <= end; o += 2)
    some_outputs<kLanes, kRows, 2>(shape, x, w + o * shape.in, y + o,
                                   std::min<std::int64_t>(2, end - o - 2));
  for (; o < end; ++o) some_outputs<kLanes, kRows, 1>(shape, x, w + o * shape.in, y + o, 0);
}

/// Adds what a block of outputs adds to the gradients of `kVectors` vectors of inputs.
template <int kLanes, int kVectors>
struct InputGradientTile {
  using Vector = typename TileVectors<kLanes>::Aligned;
  using Memory = typename TileVectors<kLanes>::Unaligned;
  const float *dy, *w;
  float* dx;
  std::int64_t in, out, outputs;
  bool is_first;
  NextWeights next;

  template <int kRows>
  BRIGADE_INLINE void run(std::int64_t example) const {
    next.prefetch<kRows>(example);
    Vector sum[kRows][kVectors] = {};
    float* const rows = dx + example * in;
    for (std::int64_t o = 0; o < outputs; ++o) {
      Vector weights[kVectors];
      for (int v = 0; v < kVectors; ++v)
        weights[v] = *reinterpret_cast<const Memory*>(w + o * in + v * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const Vector gradient = Vector{} + dy[(example + r) * out + o];
        for (int v = 0; v < kVectors; ++v) sum[r][v] += gradient * weights[v];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        auto& kept = *reinterpret_cast<Memory*>(rows + r * in + v * kLanes);
        kept = is_first ? sum[r][v] : kept + sum[r][v];
      }
    }
  }
};

/// Of `kVectors` vectors of inputs, whose gradients stay in the first-level cache meanwhile.
/// `following`: how many inputs are computed after these, at most as many.
template <int kLanes, int kRows, int kVectors>
BRIGADE_INLINE void some_input_gradients(const Shape& shape, const float* dy, const float* w,
                                         float* dx, std::int64_t following) {
  constexpr std::int64_t kWide = kLanes * kVectors;
  for (std::int64_t o = 0; o < shape.out; o += kOutputBlock) {
    const std::int64_t outputs = std::min(kOutputBlock, shape.out - o);
    const float* const rows = w + o * shape.in;
    const std::int64_t left = shape.out - o - outputs;
    const NextWeights next =
        left > 0 ? NextWeights{rows + outputs * shape.in, shape.in, std::min(kOutputBlock, left),
                               kWide, shape.examples}
                 : NextWeights{w + kWide, shape.in, std::min(kOutputBlock, shape.out), following,
                               shape.examples};
    for_each_tile<kRows>(shape.examples,
                         InputGradientTile<kLanes, kVectors>{dy + o, rows, dx, shape.in, shape.out,
                                                             outputs, o == 0, next});
  }
}

/// Of the inputs [begin, end).
template <int kLanes, int kRows, int kVectors>
BRIGADE_INLINE void input_gradient_between(const Shape& shape, const float* dy, const float* w,
                                           float* dx, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kWide = kLanes * kVectors;
  std::int64_t i = begin;
  for (; i + kWide <= end; i += kWide)
    some_input_gradients<kLanes, kRows, kVectors>(shape, dy, w + i, dx + i,
                                                  std::min(kWide, end - i - kWide));
  for (; i < end; i += kLanes) some_input_gradients<kLanes, kRows, 1>(shape, dy, w + i, dx + i, 0);
}

// Tiles of sums, of 4 examples by outputs or by vectors of inputs, fill the registers (32 of 64
// bytes, or 16 of 32) with what they are computed from.
#define BRIGADE_SMALL_BATCH_KERNELS(suffix, instruction_set, lanes, outputs, vectors)     \
  __attribute__((target(instruction_set))) void outputs_##suffix(                         \
      const Shape& shape, const float* x, const float* w, float* y, std::int64_t begin,   \
      std::int64_t end) {                                                                 \
    outputs_between<lanes, 4, outputs>(shape, x, w, y, begin, end);                       \
  }                                                                                       \
  __attribute__((target(instruction_set))) void input_gradient_##suffix(                  \
      const Shape& shape, const float* dy, const float* w, float* dx, std::int64_t begin, \
      std::int64_t end) {                                                                 \
    input_gradient_between<lanes, 4, vectors>(shape, dy, w, dx, begin, end);              \
  }

BRIGADE_SMALL_BATCH_KERNELS(avx512, "avx512f,avx2,fma", 16, 6, 4)
BRIGADE_SMALL_BATCH_KERNELS(avx2, "avx2,fma", 8, 2, 2)

using Kernel = void (*)(const Shape&, const float*, const float*, float*, std::int64_t,
                        std::int64_t);

/// `kernel(..., begin, end)` for parts of [0, count), in libtorch's threads. Parts are multiples
/// of 64, so that they have whole tiles.
void run(Kernel avx512, Kernel avx2, const Shape& shape, const float* a, const float* b, float* to,
         std::int64_t count) {
  constexpr std::int64_t kGrain = 64;
  const Kernel kernel = vector_instructions() == VectorInstructions::kAvx512 ? avx512 : avx2;
  at::parallel_for(0, (count + kGrain - 1) / kGrain, 1, [&](std::int64_t begin, std::int64_t end) {
    kernel(shape, a, b, to, begin * kGrain, std::min(end * kGrain, count));
  });
}

}  // namespace

void SmallBatchProducts::outputs(const float* x, const float* w, float* y) const {
  run(outputs_avx512, outputs_avx2, {examples_, in_, out_}, x, w, y, out_);
}

void SmallBatchProducts::input_gradient(const float* dy, const float* w, float* dx) const {
  run(input_gradient_avx512, input_gradient_avx2, {examples_, in_, out_}, dy, w, dx, in_);
}

#else

}  // namespace

// Nobody calls these: `are_supported` is false.
void SmallBatchProducts::outputs(const float*, const float*, float*) const {}
void SmallBatchProducts::input_gradient(const float*, const float*, float*) const {}

#endif

bool SmallBatchProducts::are_supported() {
  return vector_instructions() != VectorInstructions::kNone;
}

}  // namespace brigade::layers
