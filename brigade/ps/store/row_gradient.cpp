#include "brigade/ps/store/row_gradient.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/ps/store/update_record.h"

namespace brigade::ps {

namespace {

at::Tensor dense_of(const VariableGradient& gradient, at::IntArrayRef sizes) {
  if (!gradient.is_of_rows()) return gradient.values;
  return at::zeros(sizes, gradient.values.options())
      .index_copy_(0, gradient.indices, gradient.values);
}

at::Tensor dense_sum(std::span<const VariableGradient> gradients, at::IntArrayRef sizes) {
  std::vector<at::Tensor> dense;
  for (const VariableGradient& each : gradients) dense.push_back(dense_of(each, sizes));
  const at::Tensor sum = at::empty({dense.front().numel()}, dense.front().options());
  comm::add_by_tree(dense, 0, sum.numel(), sum, 0);
  return sum.view(sizes);
}

/// Throws unless they are int64 [n], of rows of a variable of this shape.
void check_indices(const std::string& name, const at::Tensor& indices, at::IntArrayRef sizes) {
  const std::string variable = base::quoted(name);
  check_recordable({.name = name, .tensor = indices});
  check_argument(indices.scalar_type() == at::kLong && indices.dim() == 1,
                 "The indices of rows of ", variable, " are ", c10::toString(indices.scalar_type()),
                 " with ", indices.dim(), " dimensions, and must be int64 with one.");
  check_argument(!sizes.empty(), "Variable ", variable, " is a scalar, and has no rows.");
  const at::Tensor list = indices.contiguous();
  const auto* first = list.const_data_ptr<std::int64_t>();
  const auto outside = std::find_if(first, first + list.numel(), [&](std::int64_t index) {
    return index < 0 || index >= sizes.front();
  });
  check_argument(outside == first + list.numel(), "Variable ", variable, " has ", sizes.front(),
                 " rows, and no row ", outside == first + list.numel() ? 0 : *outside, ".");
}

bool ascends(const at::Tensor& indices) {
  const at::Tensor list = indices.contiguous();
  const auto* first = list.const_data_ptr<std::int64_t>();
  const auto* end = first + list.numel();
  return std::adjacent_find(first, end, std::greater_equal<>()) == end;
}

}  // namespace

bool may_push(at::ScalarType dtype, at::ScalarType variable) {
  const bool is_wider = variable == at::kFloat || variable == at::kDouble;
  return dtype == variable || (dtype == at::kBFloat16 && is_wider);
}

VariableGradient sum_by_tree(std::span<const VariableGradient> narrow, at::ScalarType dtype) {
  std::vector<VariableGradient> gradients;
  for (const VariableGradient& each : narrow)  // `to` copies none that has the dtype
    gradients.push_back({.values = each.values.to(dtype), .indices = each.indices});
  if (gradients.size() == 1) return std::move(gradients.front());
  const auto dense = std::ranges::find(gradients, false, &VariableGradient::is_of_rows);
  if (dense != gradients.end()) return {.values = dense_sum(gradients, dense->values.sizes())};
  std::vector<comm::Rows> parts;
  for (const VariableGradient& each : gradients)
    parts.push_back({.indices = each.indices, .values = each.values});
  comm::Rows sum = comm::sum_rows(parts);
  return {.values = std::move(sum.values), .indices = std::move(sum.indices)};
}

void check_rows(const RowGradient& gradient, at::IntArrayRef sizes, at::ScalarType dtype) {
  const std::string variable = base::quoted(gradient.name);
  check_indices(gradient.name, gradient.indices, sizes);
  check_argument(ascends(gradient.indices), "The indices of a gradient of rows of ", variable,
                 " do not ascend: each row occurs once, in order.");
  check_recordable({.name = gradient.name, .tensor = gradient.values});
  std::vector<std::int64_t> wanted = sizes.vec();
  wanted.front() = gradient.indices.numel();
  check_argument(
      gradient.values.sizes() == wanted && may_push(gradient.values.scalar_type(), dtype),
      "A gradient of ", gradient.indices.numel(), " rows of ", variable, " is ",
      c10::toString(gradient.values.scalar_type()), gradient.values.sizes(), ", and must be ",
      c10::toString(dtype), at::IntArrayRef(wanted), ".");
}

void check_rows(const RowQuery& query, at::IntArrayRef sizes) {
  check_indices(query.name, query.indices, sizes);
}

std::vector<RowGradient> copies_of(std::span<const RowGradient> gradients) {
  std::vector<RowGradient> copies;
  for (const auto& [name, indices, values] : gradients)
    copies.push_back({.name = name,
                      .indices = indices.detach().clone(at::MemoryFormat::Contiguous),
                      .values = values.detach().clone(at::MemoryFormat::Contiguous)});
  return copies;
}

}  // namespace brigade::ps
