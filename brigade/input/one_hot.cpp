#include "brigade/input/one_hot.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>

#include "brigade/base/error.h"

namespace brigade::input {
namespace {

void check_labels(const at::Tensor& labels, std::int64_t classes) {
  const at::Tensor on_cpu = labels.cpu();
  const auto* label = on_cpu.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < on_cpu.numel(); ++i) {
    if (label[i] >= 0 && label[i] < classes) continue;
    refuse("one_hot: label ", i, " is ", label[i], "; it must be 0 to ", classes - 1);
  }
}

}  // namespace

at::Tensor one_hot(const at::Tensor& labels, std::int64_t classes, at::ScalarType dtype) {
  check_argument(classes >= 1, "one_hot: ", classes, " classes; there must be 1 or more");
  check_argument(labels.defined() && at::isIntegralType(labels.scalar_type(), false),
                 "one_hot: labels must be a tensor of integers");
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor indices = labels.to(at::kLong).contiguous();
  check_labels(indices, classes);
  std::vector<std::int64_t> shape = indices.sizes().vec();
  shape.push_back(classes);
  at::Tensor rows = at::zeros(shape, indices.options().dtype(dtype));
  return rows.scatter_(-1, indices.unsqueeze(-1), 1);
}

}  // namespace brigade::input
