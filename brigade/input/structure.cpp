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

}  // namespace brigade::data
