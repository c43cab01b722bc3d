#include "brigade/comm/local/reduce_kernel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <algorithm>

namespace brigade::comm {

namespace {

// At load time the clone with the machine's widest vectors is chosen. The order of additions per
// element is fixed, so all clones give the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define BRIGADE_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BRIGADE_VECTOR_CLONES
#endif

BRIGADE_VECTOR_CLONES
void add_two(const float* a, const float* b, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

BRIGADE_VECTOR_CLONES
void add_two(const double* a, const double* b, double* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

template <class Scalar>
void add_raw(std::span<const at::Tensor> inputs, std::int64_t begin, std::int64_t end,
             Scalar* out) {
  // A block stays in the first-level cache while the ranks' parts are added to it.
  constexpr std::int64_t kBlock = 4096;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t count = std::min(kBlock, end - at);
    Scalar* block = out + (at - begin);
    const Scalar* first = nullptr;
    bool started = false;
    for (const at::Tensor& input : inputs) {
      if (!input.defined()) continue;
      const Scalar* part = input.const_data_ptr<Scalar>() + at;
      if (first == nullptr && !started) {
        first = part;
      } else if (!started) {
        add_two(first, part, block, count);
        started = true;
      } else {
        add_two(block, part, block, count);
      }
    }
    if (!started && first != nullptr) std::copy_n(first, count, block);
    if (first == nullptr) std::fill_n(block, count, Scalar{0});
  }
}

void add_generic(std::span<const at::Tensor> inputs, std::int64_t begin, std::int64_t end,
                 const at::Tensor& out) {
  out.zero_();
  for (const at::Tensor& input : inputs) {
    if (input.defined()) out.add_(input.view(-1).narrow(0, begin, end - begin));
  }
}

/// Half and bfloat16: `out` is rounded once, or not at all if it is float32 itself.
void add_narrow(std::span<const at::Tensor> inputs, std::int64_t begin, std::int64_t end,
                const at::Tensor& out) {
  const bool is_wide = out.scalar_type() == at::kFloat;
  const at::Tensor sum = is_wide ? out : at::empty({end - begin}, out.options().dtype(at::kFloat));
  add_generic(inputs, begin, end, sum);
  if (!is_wide) out.copy_(sum);
}

bool are_narrow(std::span<const at::Tensor> inputs) {
  const auto first = std::ranges::find_if(inputs, &at::Tensor::defined);
  return first != inputs.end() && accumulation_dtype(first->scalar_type()) != first->scalar_type();
}

}  // namespace

void add_in_order(std::span<const at::Tensor> inputs, std::int64_t begin, std::int64_t end,
                  const at::Tensor& output, std::int64_t output_begin) {
  if (are_narrow(inputs))
    return add_narrow(inputs, begin, end, output.narrow(0, output_begin, end - begin));
  switch (output.scalar_type()) {
    case at::kFloat:
      return add_raw<float>(inputs, begin, end, output.mutable_data_ptr<float>() + output_begin);
    case at::kDouble:
      return add_raw<double>(inputs, begin, end, output.mutable_data_ptr<double>() + output_begin);
    default:
      return add_generic(inputs, begin, end, output.narrow(0, output_begin, end - begin));
  }
}

at::Tensor combine_in_order(std::span<const at::Tensor> inputs, ReduceOp op) {
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kMean;
  const at::Tensor& first = inputs.front();
  at::Tensor result = first.to(adds ? accumulation_dtype(first.scalar_type()) : first.scalar_type(),
                               /*non_blocking=*/false, /*copy=*/true);
  for (const at::Tensor& input : inputs.subspan(1)) {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kMean:
        result.add_(input);
        break;
      case ReduceOp::kMax:
        result = at::maximum(result, input);
        break;
      case ReduceOp::kMin:
        result = at::minimum(result, input);
        break;
    }
  }
  if (op == ReduceOp::kMean) result.div_(static_cast<double>(inputs.size()));
  return result.to(first.scalar_type());
}

void combine_range(std::span<const at::Tensor> inputs, ReduceOp op, std::int64_t begin,
                   std::int64_t end, const at::Tensor& output) {
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kMean;
  const at::ScalarType dtype = output.scalar_type();
  if (adds && (dtype == at::kFloat || dtype == at::kDouble)) {
    add_in_order(inputs, begin, end, output, 0);
    if (op == ReduceOp::kMean) output.div_(static_cast<double>(inputs.size()));
    return;
  }
  std::vector<at::Tensor> ranges;
  for (const at::Tensor& input : inputs) ranges.push_back(input.narrow(0, begin, end - begin));
  output.copy_(combine_in_order(ranges, op));
}

at::ScalarType accumulation_dtype(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
}

at::Tensor to_accumulation_dtype(const at::Tensor& value) {
  return value.to(accumulation_dtype(value.scalar_type()));
}

AccumulationTensors::AccumulationTensors(std::span<const at::Tensor> tensors, ReduceOp op)
    : originals_(tensors) {
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kMean;
  const bool any_narrow = std::ranges::any_of(tensors, [](const at::Tensor& tensor) {
    return accumulation_dtype(tensor.scalar_type()) != tensor.scalar_type();
  });
  if (!adds || !any_narrow) return;
  for (const at::Tensor& tensor : tensors)
    copies_.push_back(to_accumulation_dtype(tensor.detach()));
}

void AccumulationTensors::copy_back() const {
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].scalar_type() != originals_[i].scalar_type())
      originals_[i].detach().copy_(copies_[i]);
  }
}

}  // namespace brigade::comm
