#include "brigade/input/structure.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/input/rows.h"

namespace brigade::data {

using input::LabeledBatch;
using input::LabeledExample;

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
