#include "brigade/comm/local/accumulation.h"

#include <algorithm>

namespace brigade::comm {

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
