#include "brigade/ps/client/tensor_form.h"

#include <c10/util/accumulate.h>

#include "brigade/base/strings.h"

namespace brigade::ps {

TensorForm form_of(const at::Tensor& tensor) {
  return {.sizes = tensor.sizes().vec(), .dtype = tensor.scalar_type()};
}

std::uint64_t bytes_of(const TensorForm& form) {
  return static_cast<std::uint64_t>(c10::multiply_integers(form.sizes)) *
         c10::elementSize(form.dtype);
}

std::uint64_t row_bytes_of(const TensorForm& form) {
  const bool has_rows = !form.sizes.empty() && form.sizes.front() > 0;
  return has_rows ? bytes_of(form) / static_cast<std::uint64_t>(form.sizes.front()) : 0;
}

std::string text_of(const TensorForm& form) {
  return base::str_cat(at::toString(form.dtype), "[", base::join(form.sizes, ", "), "]");
}

}  // namespace brigade::ps
