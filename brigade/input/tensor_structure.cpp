#include "brigade/input/tensor_structure.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/input/rows.h"

namespace brigade::data {

using input::LabeledBatch;
using input::LabeledExample;

namespace {

using TensorList = std::vector<at::Tensor>;

template <class Change>
TensorList each_part(const TensorList& batch, Change change) {
  TensorList result;
  for (const at::Tensor& part : batch) result.push_back(change(part));
  return result;
}

/// Part i of each of the lists, joined by `join`.
template <class Join>
TensorList join_parts(const std::vector<TensorList>& lists, Join join) {
  TensorList joined;
  for (std::size_t part = 0; part < lists.front().size(); ++part) {
    TensorList parts;
    for (const TensorList& list : lists) {
      if (list.size() != lists.front().size()) {
        throw Error(ErrorCode::kInvalidArgument,
                    base::str_cat("Lists of tensors in one batch must have one length: one has ",
                                  lists.front().size(), " tensors, another ", list.size()));
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

LabeledBatch Structure<LabeledExample>::stack(std::vector<LabeledExample>&& elements) {
  const auto count = static_cast<std::int64_t>(elements.size());
  std::vector<at::Tensor> features;
  features.reserve(elements.size());
  at::Tensor labels = at::empty({count}, at::kLong);
  auto* label = labels.mutable_data_ptr<std::int64_t>();
  for (LabeledExample& element : elements) {
    features.push_back(std::move(element.features));
    *label++ = element.label;
  }
  return {input::stack_rows(features), std::move(labels)};
}

std::int64_t Structure<LabeledExample>::size(const LabeledBatch& batch) {
  const std::int64_t count = input::row_count(batch.features);
  const std::int64_t labels = input::row_count(batch.labels);
  if (labels != count) {
    throw Error(ErrorCode::kInvalidArgument,
                base::str_cat("A batch has ", count, " features but ", labels, " labels"));
  }
  return count;
}

LabeledBatch Structure<LabeledExample>::slice(const LabeledBatch& batch, std::int64_t begin,
                                              std::int64_t end) {
  return {input::rows_between(batch.features, begin, end),
          input::rows_between(batch.labels, begin, end)};
}

LabeledBatch Structure<LabeledBatch>::stack(std::vector<LabeledBatch>&& elements) {
  std::vector<at::Tensor> features;
  std::vector<at::Tensor> labels;
  for (LabeledBatch& element : elements) {
    features.push_back(std::move(element.features));
    labels.push_back(std::move(element.labels));
  }
  return {input::stack_rows(features), input::stack_rows(labels)};
}

std::int64_t Structure<LabeledBatch>::size(const LabeledBatch& batch) {
  return Structure<LabeledExample>::size(batch);
}

LabeledBatch Structure<LabeledBatch>::slice(const LabeledBatch& batch, std::int64_t begin,
                                            std::int64_t end) {
  return Structure<LabeledExample>::slice(batch, begin, end);
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
      throw Error(ErrorCode::kInvalidArgument,
                  base::str_cat("The tensors of a batch must agree in their first dimension, which "
                                "counts the examples: tensor 0 of the list has ",
                                count, ", tensor ", i, " has ", own));
    }
  }
  return count;
}

TensorList Structure<TensorList>::slice(const TensorList& batch, std::int64_t begin,
                                        std::int64_t end) {
  return each_part(batch,
                   [&](const at::Tensor& part) { return input::rows_between(part, begin, end); });
}

std::int64_t Unbatch<at::Tensor>::size(const at::Tensor& batch) {
  return input::row_count(batch);
}

at::Tensor Unbatch<at::Tensor>::element(at::Tensor& batch, std::int64_t index) {
  return input::row_of(batch, index);
}

at::Tensor Unbatch<at::Tensor>::slice(at::Tensor& batch, std::int64_t begin, std::int64_t end) {
  return input::rows_between(batch, begin, end);
}

at::Tensor Unbatch<at::Tensor>::concatenate(std::vector<at::Tensor>&& parts) {
  return input::join_rows(parts);
}

std::int64_t Unbatch<TensorList>::size(const TensorList& batch) {
  return Structure<TensorList>::size(batch);
}

TensorList Unbatch<TensorList>::element(TensorList& batch, std::int64_t index) {
  return each_part(batch, [&](const at::Tensor& part) { return input::row_of(part, index); });
}

TensorList Unbatch<TensorList>::slice(TensorList& batch, std::int64_t begin, std::int64_t end) {
  return Structure<TensorList>::slice(batch, begin, end);
}

TensorList Unbatch<TensorList>::concatenate(std::vector<TensorList>&& parts) {
  return join_parts(parts, input::join_rows);
}

std::int64_t Unbatch<LabeledBatch>::size(const LabeledBatch& batch) {
  const std::int64_t count = Structure<LabeledExample>::size(batch);
  check_argument(batch.labels.dim() == 1 && batch.labels.scalar_type() == at::kLong,
                 "A batch can be taken apart into examples if its labels are int64 [N]; these are "
                 "of another type or have more dimensions");
  return count;
}

LabeledExample Unbatch<LabeledBatch>::element(LabeledBatch& batch, std::int64_t index) {
  const at::Tensor& labels = batch.labels;
  const std::int64_t label = labels.device().is_cpu()
                                 ? labels.const_data_ptr<std::int64_t>()[index * labels.stride(0)]
                                 : labels[index].item<std::int64_t>();
  return {input::row_of(batch.features, index), label};
}

LabeledBatch Unbatch<LabeledBatch>::slice(LabeledBatch& batch, std::int64_t begin,
                                          std::int64_t end) {
  return Structure<LabeledExample>::slice(batch, begin, end);
}

LabeledBatch Unbatch<LabeledBatch>::concatenate(std::vector<LabeledBatch>&& parts) {
  std::vector<at::Tensor> features;
  std::vector<at::Tensor> labels;
  for (LabeledBatch& part : parts) {
    features.push_back(std::move(part.features));
    labels.push_back(std::move(part.labels));
  }
  return {input::join_rows(features), input::join_rows(labels)};
}

}  // namespace brigade::data
