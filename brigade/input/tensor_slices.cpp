#include "brigade/input/tensor_slices.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <cstdint>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/source.h"
#include "brigade/input/rows.h"

namespace brigade::input {
namespace {

/// The labels as int64; a copy unless they are int64 already.
at::Tensor checked_labels(const at::Tensor& labels, const std::string& name) {
  if (!labels.defined() || labels.dim() != 1 || !labels.device().is_cpu() ||
      !at::isIntegralType(labels.scalar_type(), /*includeBool=*/false)) {
    const std::string got = labels.defined() ? base::str_cat(labels.dtype(), " ", labels.sizes(),
                                                             " on ", labels.device())
                                             : "none";
    refuse(name, ": labels must be a tensor of integers [N] on the CPU, got ", got);
  }
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  return labels.to(at::kLong).contiguous();
}

}  // namespace

data::Dataset<at::Tensor> from_tensor_slices(at::Tensor rows, std::string name) {
  const std::int64_t count = row_count(rows);
  at::Tensor detached = rows.detach();
  return data::from_indexed<at::Tensor>(
      count, [detached](std::int64_t index) { return row_of(detached, index); }, std::move(name));
}

data::Dataset<LabeledExample> from_tensor_slices(at::Tensor features, const at::Tensor& labels,
                                                 std::string name) {
  const std::int64_t count = row_count(features);
  at::Tensor classes = checked_labels(labels, name);
  check_argument(classes.size(0) == count, name, ": there are ", count, " features but ",
                 classes.size(0), " labels");
  at::Tensor detached = features.detach();
  const auto* label = classes.const_data_ptr<std::int64_t>();
  return data::from_indexed<LabeledExample>(
      count,
      [detached, classes, label](std::int64_t index) {
        return LabeledExample{row_of(detached, index), label[index]};
      },
      std::move(name));
}

}  // namespace brigade::input
