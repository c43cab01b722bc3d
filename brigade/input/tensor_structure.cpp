#include "brigade/input/tensor_structure.h"

#include <ATen/ops/empty.h>

#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/batch_memory.h"
#include "brigade/device/dtypes.h"
#include "brigade/input/rows.h"
#include "brigade/input/to_device.h"

namespace brigade::data {

namespace {

using TensorList = std::vector<at::Tensor>;

/// Part i of each of the lists, joined by `join`.
template <class Join>
TensorList join_parts(const std::vector<TensorList>& lists, Join join) {
  TensorList joined;
  for (std::size_t part = 0; part < lists.front().size(); ++part) {
    TensorList parts;
    for (const TensorList& list : lists) {
      if (list.size() != lists.front().size()) {
        refuse("Lists of tensors in one batch must have one length: one has ", lists.front().size(),
               " tensors, another ", list.size());
      }
      parts.push_back(list[part]);
    }
    joined.push_back(join(parts));
  }
  return joined;
}

}  // namespace

at::Tensor Structure<at::Tensor>::stack(std::vector<at::Tensor>&& elements) {
  return input::stack_rows(elements);
}

std::int64_t Structure<at::Tensor>::size(const at::Tensor& batch) {
  return input::row_count(batch);
}

at::Tensor Structure<at::Tensor>::slice(const at::Tensor& batch, std::int64_t begin,
                                        std::int64_t end) {
  return input::rows_between(batch, begin, end);
}

TensorList Structure<TensorList>::stack(std::vector<TensorList>&& elements) {
  return join_parts(elements, input::stack_rows);
}

std::int64_t Structure<TensorList>::size(const TensorList& batch) {
  check_argument(!batch.empty(), "A list of no tensors is not a batch: it has no first dimension.");
  const std::int64_t count = input::row_count(batch.front());
  for (std::size_t i = 1; i < batch.size(); ++i) {
    const std::int64_t own = input::row_count(batch[i]);
    if (own != count) {
      refuse(
          "The tensors of a batch must agree in their first dimension, which counts the "
          "examples: tensor 0 of the list has ",
          count, ", tensor ", i, " has ", own);
    }
  }
  return count;
}

TensorList Structure<TensorList>::slice(const TensorList& batch, std::int64_t begin,
                                        std::int64_t end) {
  return input::each_tensor(
      batch, [&](const at::Tensor& part) { return input::rows_between(part, begin, end); });
}

at::Tensor Unbatch<at::Tensor>::element(const at::Tensor& batch, std::int64_t index) {
  return input::row_of(batch, index);
}

at::Tensor Unbatch<at::Tensor>::concatenate(std::vector<at::Tensor>&& parts) {
  return input::join_rows(parts);
}

TensorList Unbatch<TensorList>::element(const TensorList& batch, std::int64_t index) {
  return input::each_tensor(batch,
                            [&](const at::Tensor& part) { return input::row_of(part, index); });
}

TensorList Unbatch<TensorList>::concatenate(std::vector<TensorList>&& parts) {
  return join_parts(parts, input::join_rows);
}

at::Tensor internal::empty_numbers(std::size_t count, at::ScalarType type) {
  const bool is_pinned = batch_memory() == BatchMemory::kPinned;
  return at::empty({static_cast<std::int64_t>(count)},
                   at::TensorOptions(type).pinned_memory(is_pinned));
}

void internal::check_numbers(const at::Tensor& numbers, at::ScalarType type) {
  if (numbers.defined() && numbers.dim() == 1 && numbers.scalar_type() == type) return;
  const auto name_of = [](at::ScalarType one) {
    const auto dtype = device::file_dtype_of(one);
    return dtype ? dtype->name : std::string_view(c10::toString(one));
  };
  refuse(
      "A batch can be taken apart into elements with a number each (such as labels) if the "
      "tensor of the numbers is ",
      name_of(type), " [N]; this one is ",
      numbers.defined() ? base::str_cat(name_of(numbers.scalar_type()), " [",
                                        base::join(numbers.sizes(), ", "), "]")
                        : "undefined");
}

}  // namespace brigade::data
