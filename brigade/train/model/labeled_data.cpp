#include "brigade/train/model/labeled_data.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/source.h"

namespace brigade::train {
namespace {

using input::LabeledBatch;

constexpr std::int64_t kDefaultBatchSize = 32;

std::string shape_of(const at::Tensor& tensor) {
  return tensor.defined() ? base::str_cat("[", base::join(tensor.sizes().vec(), ", "), "]")
                          : "none";
}

at::Tensor no_labels(const at::Tensor& features) {
  return at::empty({features.size(0), 0}, at::kLong);
}

data::Dataset<LabeledBatch> batches_of(const at::Tensor& features, const at::Tensor& labels,
                                       const LabeledData::Batching& batching) {
  const std::int64_t batch_size = batching.batch_size.value_or(kDefaultBatchSize);
  check_argument(batch_size > 0,
                 base::str_cat("batch_size is ", batch_size, " and must be at least 1."));
  const std::int64_t count = features.size(0);
  auto rows = data::range(count);
  if (batching.shuffle) rows = rows.shuffle(count);
  return rows.batch(batch_size).map([features, labels](const std::vector<std::int64_t>& batch) {
    const at::Tensor index = at::tensor(batch, at::kLong);
    return LabeledBatch{.features = at::index_select(features, 0, index.to(features.device())),
                        .labels = at::index_select(labels, 0, index.to(labels.device()))};
  });
}

}  // namespace

LabeledData::LabeledData(data::Dataset<LabeledBatch> global_batches)
    : data_(std::move(global_batches)) {}

LabeledData::LabeledData(Distributed batches) : data_(std::move(batches)) {}

LabeledData::LabeledData(at::Tensor features, at::Tensor labels)
    : data_(Tensors{features, labels}) {
  const bool fits = features.defined() && labels.defined() && features.dim() > 0 &&
                    labels.dim() > 0 && features.size(0) == labels.size(0) && features.size(0) > 0;
  check_argument(fits,
                 base::str_cat("Features ", shape_of(features), " and labels ", shape_of(labels),
                               " must have the same, positive number of examples."));
}

LabeledData LabeledData::unlabeled(const at::Tensor& features) {
  check_argument(features.defined() && features.dim() > 0 && features.size(0) > 0,
                 base::str_cat("Features ", shape_of(features), " contain no example."));
  return {features, no_labels(features)};
}

LabeledData LabeledData::unlabeled(const data::Dataset<at::Tensor>& batches) {
  return batches.map([](const at::Tensor& features) {
    return LabeledBatch{.features = features, .labels = no_labels(features)};
  });
}

std::pair<LabeledData, LabeledData> LabeledData::split_off_last(double fraction) const {
  check_argument(fraction > 0.0 && fraction < 1.0,
                 base::str_cat("validation_split is ", fraction, " and must lie between 0 and 1."));
  const auto* tensors = std::get_if<Tensors>(&data_);
  check_argument(tensors != nullptr,
                 "validation_split is for tensors: split a dataset with take and skip.");
  const std::int64_t count = tensors->features.size(0);
  const auto first = static_cast<std::int64_t>(static_cast<double>(count) * (1.0 - fraction));
  check_argument(first > 0 && first < count,
                 base::str_cat("validation_split is ", fraction, ": ", count,
                               " examples are too few to split."));
  const auto slice = [&](std::int64_t begin, std::int64_t size) {
    return LabeledData(tensors->features.narrow(0, begin, size),
                       tensors->labels.narrow(0, begin, size));
  };
  return {slice(0, first), slice(first, count - first)};
}

LabeledData::Distributed LabeledData::distributed(const distribute::Strategy& strategy,
                                                  const Batching& batching) const {
  const auto* tensors = std::get_if<Tensors>(&data_);
  check_argument(tensors != nullptr || !batching.batch_size,
                 "batch_size is for tensors: this dataset's elements are batches already.");
  if (const auto* batches = std::get_if<Distributed>(&data_)) return *batches;
  return strategy.distribute(global_batches(batching), batching.input);
}

data::Dataset<LabeledBatch> LabeledData::global_batches(const Batching& batching) const {
  const auto* tensors = std::get_if<Tensors>(&data_);
  if (tensors != nullptr) return batches_of(tensors->features, tensors->labels, batching);
  const auto* dataset = std::get_if<data::Dataset<LabeledBatch>>(&data_);
  check_argument(
      dataset != nullptr,
      "The data is a distributed dataset, whose batches are split already, where workers "
      "are to divide it: pass a dataset of global batches, or tensors.");
  check_argument(!batching.batch_size,
                 "batch_size is for tensors: this dataset's elements are batches already.");
  return *dataset;
}

}  // namespace brigade::train
