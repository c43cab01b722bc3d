#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace brigade::ps {

/// The shape and dtype of a tensor, without its elements.
struct TensorForm {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  friend bool operator==(const TensorForm&, const TensorForm&) = default;
};

TensorForm form_of(const at::Tensor& tensor);

std::uint64_t bytes_of(const TensorForm& form);
/// Of one row, along the first dimension; 0 if there is none.
std::uint64_t row_bytes_of(const TensorForm& form);

/// "Float[2, 3]", for messages.
std::string text_of(const TensorForm& form);

}  // namespace brigade::ps
