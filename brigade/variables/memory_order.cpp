#include "brigade/variables/memory_order.h"

#include <ATen/core/LegacyTypeDispatch.h>

namespace brigade::variables {

at::MemoryFormat effective_format(at::IntArrayRef shape, at::MemoryFormat format) {
  const bool differs = format == at::MemoryFormat::ChannelsLast && shape.size() == 4 &&
                       shape[1] > 1 && shape[2] * shape[3] > 1;
  return differs ? format : at::MemoryFormat::Contiguous;
}

at::Tensor in_memory_order(const at::Tensor& value, at::MemoryFormat format) {
  const at::Tensor dense = value.contiguous(format);
  if (format != at::MemoryFormat::ChannelsLast) return dense;
  // Unlike a view that autograd tracks, it does not refer to `value`: its memory has one owner.
  const at::AutoDispatchBelowADInplaceOrView untracked;
  return dense.permute({0, 2, 3, 1});
}

std::vector<std::int64_t> shape_in_memory(at::IntArrayRef shape, at::MemoryFormat format) {
  if (format != at::MemoryFormat::ChannelsLast) return shape.vec();
  return {shape[0], shape[2], shape[3], shape[1]};
}

at::Tensor from_memory_order(const at::Tensor& elements, at::IntArrayRef shape,
                             at::MemoryFormat format) {
  const at::Tensor shaped = elements.view(shape_in_memory(shape, format));
  return format == at::MemoryFormat::ChannelsLast ? shaped.permute({0, 3, 1, 2}) : shaped;
}

}  // namespace brigade::variables
