#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "brigade/data/dataset.h"
#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"

namespace brigade::train {

/// The data of a `Model`: a dataset of global batches, a distributed dataset, or tensors. Each
/// converts implicitly.
///
/// Thread-safety: a value; copies share the tensors.
class LabeledData {
 public:
  using Distributed = distribute::DistributedDataset<input::LabeledBatch>;

  LabeledData(data::Dataset<input::LabeledBatch> global_batches);
  LabeledData(Distributed batches);
  /// The examples are along the first dimension of both tensors; labels may have any dtype and
  /// further dimensions. Throws kInvalidArgument, with both shapes, if the numbers of examples
  /// differ or are 0.
  LabeledData(at::Tensor features, at::Tensor labels);

  /// Data for `Model::predict`. The elements of a dataset are batches of features.
  static LabeledData unlabeled(const at::Tensor& features);
  static LabeledData unlabeled(const data::Dataset<at::Tensor>& batches);

  /// Whether the data is in tensors, which are not yet split into batches.
  bool is_tensors() const { return std::holds_alternative<Tensors>(data_); }

  /// Splits the data into the first examples and the last `fraction` of them, which is rounded up.
  /// Throws kInvalidArgument for data that is not in tensors, for a fraction outside of (0, 1), and
  /// if a result would be empty. Keras: validation_split.
  std::pair<LabeledData, LabeledData> split_off_last(double fraction) const;

  /// How tensors are split into batches.
  struct Batching {
    std::optional<std::int64_t> batch_size = std::nullopt;  ///< global; default 32
    bool shuffle = false;                                   ///< in each epoch
    /// For data that is not distributed yet.
    distribute::InputOptions input = {};
  };
  /// Throws kInvalidArgument for a batch size below 1, and for a batch size if the data consists of
  /// batches already.
  Distributed distributed(const distribute::Strategy& strategy, const Batching& batching) const;
  /// The global batches, before they are split among replicas; `batching.input` is not used. Throws
  /// as `distributed`, and kInvalidArgument for data that is distributed already.
  data::Dataset<input::LabeledBatch> global_batches(const Batching& batching) const;

 private:
  struct Tensors {
    at::Tensor features, labels;
  };
  std::variant<data::Dataset<input::LabeledBatch>, Distributed, Tensors> data_;
};

}  // namespace brigade::train
