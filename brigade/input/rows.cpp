#include "brigade/input/rows.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <cstring>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/batch_memory.h"

namespace brigade::input {
namespace {

std::string describe(const at::Tensor& tensor) {
  return base::str_cat(tensor.dtype(), " ", tensor.sizes());
}

void check_alike(const std::vector<at::Tensor>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].sizes() == rows[0].sizes() && rows[i].scalar_type() == rows[0].scalar_type() &&
        rows[i].device() == rows[0].device()) {
      continue;
    }
    refuse("The elements of a batch must have one shape and dtype: element 0 is ",
           describe(rows[0]), ", element ", i, " is ", describe(rows[i]));
  }
}

bool can_concatenate(const at::Tensor& first, const at::Tensor& part) {
  return part.dim() == first.dim() && part.scalar_type() == first.scalar_type() &&
         part.device() == first.device() && part.sizes().slice(1) == first.sizes().slice(1);
}

bool can_copy_bytes(const std::vector<at::Tensor>& rows) {
  for (const at::Tensor& row : rows) {
    if (!row.device().is_cpu() || !row.is_contiguous() || row.is_conj() || row.is_neg())
      return false;
  }
  return true;
}

bool is_pinned_by(const at::TensorOptions& options) {
  return options.pinned_memory_opt().value_or(false);
}

}  // namespace

at::TensorOptions batch_options(const at::Tensor& part) {
  const at::TensorOptions options = part.options().requires_grad(false);
  const bool is_for_gpu = data::batch_memory() == data::BatchMemory::kPinned &&
                          part.device().is_cpu() && part.layout() == at::kStrided;
  return is_for_gpu ? options.pinned_memory(true) : options;
}

at::Tensor row_of(const at::Tensor& rows, std::int64_t index) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  return rows.select(0, index);
}

at::Tensor rows_between(const at::Tensor& rows, std::int64_t begin, std::int64_t end) {
  const std::int64_t count = row_count(rows);
  if (begin < 0 || begin > end || end > count) {
    refuse("Rows ", begin, " to ", end, " of ", count, ": no such part of a batch");
  }
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  return rows.narrow(0, begin, end - begin);
}

at::Tensor stack_rows(const std::vector<at::Tensor>& rows) {
  check_argument(!rows.empty(), "A batch of no elements has no shape");
  check_alike(rows);
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::TensorOptions options = batch_options(rows[0]);
  const bool copies_bytes = can_copy_bytes(rows);
  if (!copies_bytes && !is_pinned_by(options)) return at::stack(rows);
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(rows.size())};
  shape.insert(shape.end(), rows[0].sizes().begin(), rows[0].sizes().end());
  at::Tensor batch = at::empty(shape, options);
  if (!copies_bytes) return at::stack_out(batch, rows);
  const std::size_t bytes = rows[0].nbytes();
  auto* target = static_cast<std::byte*>(batch.data_ptr());
  for (const at::Tensor& row : rows) {
    if (bytes > 0) std::memcpy(target, row.const_data_ptr(), bytes);
    target += bytes;
  }
  return batch;
}

at::Tensor join_rows(const std::vector<at::Tensor>& parts) {
  check_argument(!parts.empty(), "A batch of no parts has no shape");
  row_count(parts[0]);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (can_concatenate(parts[0], parts[i])) continue;
    refuse(
        "The parts of a batch must have one dtype and, after the first dimension, one "
        "shape: part 0 is ",
        describe(parts[0]), ", part ", i, " is ", describe(parts[i]));
  }
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::TensorOptions options = batch_options(parts[0]);
  if (!is_pinned_by(options)) return at::cat(parts);
  std::vector<std::int64_t> shape = parts[0].sizes().vec();
  shape[0] = 0;
  for (const at::Tensor& part : parts) shape[0] += part.size(0);
  at::Tensor batch = at::empty(shape, options);
  return at::cat_out(batch, parts);
}

std::int64_t row_count(const at::Tensor& rows) {
  check_argument(rows.defined() && rows.dim() >= 1,
                 "A batch needs a first dimension that counts its elements; this tensor has none");
  return rows.size(0);
}

}  // namespace brigade::input
