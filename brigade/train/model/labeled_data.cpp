#include "brigade/train/model/labeled_data.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/data/core/source.h"
#include "brigade/input/to_device.h"

namespace brigade::train {
namespace {

using input::LabeledBatch;
using input::NamedTensors;

constexpr std::int64_t kDefaultBatchSize = 32;
constexpr const char* kIsDistributed =
    "The data is a distributed dataset, whose batches are split already, where workers are to "
    "divide it: pass a dataset of global batches, or tensors.";

std::string shape_of(const at::Tensor& tensor) {
  return tensor.defined() ? base::str_cat("[", base::join(tensor.sizes().vec(), ", "), "]")
                          : "none";
}

at::Tensor no_labels(const at::Tensor& features) {
  return at::empty({features.size(0), 0}, at::kLong);
}

/// The indices of the examples of each batch.
auto batches_of_rows(std::int64_t count, const LabeledData::Batching& batching) {
  const std::int64_t batch_size = batching.batch_size.value_or(kDefaultBatchSize);
  check_argument(batch_size > 0, "batch_size is ", batch_size, " and must be at least 1.");
  auto rows = data::range(count);
  if (batching.shuffle) rows = rows.shuffle(count);
  return rows.batch(batch_size);
}

data::Dataset<LabeledBatch> batches_of(const at::Tensor& features, const at::Tensor& labels,
                                       const LabeledData::Batching& batching) {
  return batches_of_rows(features.size(0), batching)
      .map([features, labels](const std::vector<std::int64_t>& batch) {
        const at::Tensor index = at::tensor(batch, at::kLong);
        return LabeledBatch{.features = at::index_select(features, 0, index.to(features.device())),
                            .labels = at::index_select(labels, 0, index.to(labels.device()))};
      });
}

data::Dataset<ModelBatch> batches_of(const ModelBatch& examples,
                                     const LabeledData::Batching& batching) {
  return batches_of_rows(examples.examples(), batching)
      .map([examples](const std::vector<std::int64_t>& batch) {
        const at::Tensor index = at::tensor(batch, at::kLong);
        return map_tensors(examples, [&index](const at::Tensor& each) {
          return at::index_select(each, 0, index.to(each.device()));
        });
      });
}

ModelBatch checked_examples(ModelBatch examples) {
  examples = internal::checked(std::move(examples));
  check_argument(examples.examples() > 0, "The data contains no example.");
  return examples;
}

NamedTensors picked(const NamedTensors& tensors, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const std::string& name : names) result.emplace_back(name, tensors[name]);
  return NamedTensors(std::move(result));
}

/// A tensor's rows [begin, begin + size).
template <class Batch>
Batch rows_of(const Batch& examples, std::int64_t begin, std::int64_t size) {
  return input::each_tensor(examples,
                            [=](const at::Tensor& each) { return each.narrow(0, begin, size); });
}

}  // namespace

LabeledData::LabeledData(data::Dataset<LabeledBatch> global_batches)
    : data_(std::move(global_batches)) {}

LabeledData::LabeledData(Distributed batches) : data_(std::move(batches)) {}

LabeledData::LabeledData(at::Tensor features, at::Tensor labels)
    : data_(Tensors{features, labels}) {
  const bool fits = features.defined() && labels.defined() && features.dim() > 0 &&
                    labels.dim() > 0 && features.size(0) == labels.size(0) && features.size(0) > 0;
  check_argument(fits, "Features ", shape_of(features), " and labels ", shape_of(labels),
                 " must have the same, positive number of examples.");
}

LabeledData::LabeledData(at::Tensor features, at::Tensor labels, at::Tensor sample_weight)
    : data_(checked_examples({.inputs = unnamed(std::move(features)),
                              .labels = unnamed(std::move(labels)),
                              .sample_weights = unnamed(std::move(sample_weight))})) {}

LabeledData::LabeledData(ModelBatch examples) : data_(checked_examples(std::move(examples))) {}

LabeledData::LabeledData(data::Dataset<ModelBatch> global_batches)
    : data_(general(global_batches)) {}

LabeledData::LabeledData(distribute::DistributedDataset<ModelBatch> batches)
    : data_(std::move(batches)) {}

LabeledData::LabeledData(const data::Dataset<NamedTensors>& global_batches, Columns columns)
    : LabeledData(global_batches.map([columns](const NamedTensors& batch) {
        ModelBatch result{.inputs = picked(batch, columns.inputs),
                          .labels = picked(batch, columns.labels)};
        if (columns.sample_weight) result.sample_weights = unnamed(batch[*columns.sample_weight]);
        return result;
      })) {
  check_argument(!columns.inputs.empty(),
                 "LabeledData: the columns name no input: set Columns::inputs.");
}

LabeledData LabeledData::unlabeled(const at::Tensor& features) {
  check_argument(features.defined() && features.dim() > 0 && features.size(0) > 0, "Features ",
                 shape_of(features), " contain no example.");
  return {features, no_labels(features)};
}

LabeledData LabeledData::unlabeled(const data::Dataset<at::Tensor>& batches) {
  return batches.map([](const at::Tensor& features) {
    return LabeledBatch{.features = features, .labels = no_labels(features)};
  });
}

LabeledData LabeledData::unlabeled(const NamedTensors& inputs) {
  return ModelBatch{.inputs = inputs};
}

LabeledData LabeledData::unlabeled(const data::Dataset<NamedTensors>& batches) {
  return batches.map([](const NamedTensors& inputs) { return ModelBatch{.inputs = inputs}; });
}

std::pair<LabeledData, LabeledData> LabeledData::split_off_last(double fraction) const {
  check_argument(fraction > 0.0 && fraction < 1.0, "validation_split is ", fraction,
                 " and must lie between 0 and 1.");
  check_argument(is_tensors(),
                 "validation_split is for tensors: split a dataset with take and skip.");
  const auto* tensors = std::get_if<Tensors>(&data_);
  const std::int64_t count =
      tensors ? tensors->features.size(0) : std::get<ModelBatch>(data_).examples();
  const auto first = static_cast<std::int64_t>(static_cast<double>(count) * (1.0 - fraction));
  check_argument(first > 0 && first < count, "validation_split is ", fraction, ": ", count,
                 " examples are too few to split.");
  const auto slice = [&](std::int64_t begin, std::int64_t size) {
    if (!tensors) return LabeledData(rows_of(std::get<ModelBatch>(data_), begin, size));
    return LabeledData(tensors->features.narrow(0, begin, size),
                       tensors->labels.narrow(0, begin, size));
  };
  return {slice(0, first), slice(first, count - first)};
}

bool LabeledData::is_general() const {
  return std::holds_alternative<ModelBatch>(data_) ||
         std::holds_alternative<data::Dataset<ModelBatch>>(data_) ||
         std::holds_alternative<distribute::DistributedDataset<ModelBatch>>(data_);
}

void LabeledData::check_batching(const Batching& batching) const {
  check_argument(is_tensors() || !batching.batch_size,
                 "batch_size is for tensors: this dataset's elements are batches already.");
}

LabeledData::Distributed LabeledData::distributed(const distribute::Strategy& strategy,
                                                  const Batching& batching) const {
  check_batching(batching);
  if (const auto* batches = std::get_if<Distributed>(&data_)) return *batches;
  return strategy.distribute(global_batches(batching), batching.input);
}

data::Dataset<LabeledBatch> LabeledData::global_batches(const Batching& batching) const {
  check_argument(
      !is_general(),
      "The data has named tensors or sample weights, so its batches are not LabeledBatches.");
  const auto* tensors = std::get_if<Tensors>(&data_);
  if (tensors != nullptr) return batches_of(tensors->features, tensors->labels, batching);
  const auto* dataset = std::get_if<data::Dataset<LabeledBatch>>(&data_);
  check_argument(dataset != nullptr, kIsDistributed);
  check_batching(batching);
  return *dataset;
}

data::Dataset<ModelBatch> LabeledData::general_batches(const Batching& batching) const {
  if (const auto* examples = std::get_if<ModelBatch>(&data_))
    return batches_of(*examples, batching);
  const auto* dataset = std::get_if<data::Dataset<ModelBatch>>(&data_);
  check_argument(dataset != nullptr, kIsDistributed);
  check_batching(batching);
  return *dataset;
}

internal::DistributedBatches LabeledData::distributed_batches(const distribute::Strategy& strategy,
                                                              const Batching& batching) const {
  if (!is_general()) return distributed(strategy, batching);
  check_batching(batching);
  if (const auto* batches = std::get_if<distribute::DistributedDataset<ModelBatch>>(&data_))
    return {*batches, /*checks=*/true};
  return {strategy.distribute(general_batches(batching), batching.input), /*checks=*/false};
}

internal::GlobalBatches LabeledData::all_batches(const Batching& batching) const {
  if (is_general()) return general_batches(batching);
  return global_batches(batching);
}

}  // namespace brigade::train
