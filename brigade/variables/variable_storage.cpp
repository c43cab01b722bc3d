#include "brigade/variables/variable_storage.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>

namespace brigade::variables {

FlatLayout::FlatLayout(at::ScalarType dtype, std::span<const std::int64_t> sizes) : dtype_(dtype) {
  for (const std::int64_t elements : sizes) {
    offsets_.push_back(size_);
    size_ = next_offset(size_ + elements);
  }
}

std::int64_t FlatLayout::next_offset(std::int64_t end) const {
  const auto step = static_cast<std::int64_t>(64 / c10::elementSize(dtype_));
  return (end + step - 1) / step * step;
}

void VariableStorage::refresh(int replica) const {
  const at::NoGradGuard no_grad;
  if (is_cached(replica)) buffer(replica).copy_(master(replica));
}

}  // namespace brigade::variables
