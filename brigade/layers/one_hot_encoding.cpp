#include "brigade/layers/one_hot_encoding.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/eq.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/layers/checks.h"
#include "brigade/layers/layer_scope.h"

namespace brigade::layers {

at::Tensor one_hot_encoding(const at::Tensor& labels, std::int64_t num_classes,
                            const OneHotOptions& options) {
  const auto arguments = arguments_in_force(kLayerKind<one_hot_encoding>, options);
  check_dimensions("one_hot_encoding", labels, 0);
  check_outputs("one_hot_encoding", num_classes);
  if (!at::isIntegralType(labels.scalar_type(), /*includeBool=*/false)) {
    throw Error(ErrorCode::kInvalidArgument, base::str_cat("one_hot_encoding: labels have dtype ",
                                                           at::toString(labels.scalar_type()),
                                                           "; expected integral class numbers"));
  }
  const OpenOperation operation(options.scope, "OneHotEncoding");
  const auto numbers = operation.place("one_hot", labels).to(at::kLong).unsqueeze(-1);
  auto rows = at::eq(numbers, at::arange(num_classes, numbers.options())).to(at::kFloat);
  if (options.on_value != 1.0 || options.off_value != 0.0) {
    rows.mul_(options.on_value - options.off_value).add_(options.off_value);
  }
  return operation.collected(arguments.outputs_collections, std::move(rows));
}

}  // namespace brigade::layers
