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

/// Whether examples that lie in tensors come in another order in each epoch.
enum class Shuffle { kNo, kYes };

/// What a `Model` takes data as: a dataset of global batches, one that is distributed already, or
/// tensors. Made from any of them by itself.
///
/// Thread-safety: a value; tensors are shared.
class LabeledData {
 public:
  using Distributed = distribute::DistributedDataset<input::LabeledBatch>;

  LabeledData(data::Dataset<input::LabeledBatch> global_batches);
  LabeledData(Distributed batches);
  /// Examples along the first dimension of both; labels of any dtype and further dimensions. Throws
  /// kInvalidArgument, naming both shapes, if their numbers differ or there is none.
  LabeledData(at::Tensor features, at::Tensor labels);

  /// Data to predict from. A dataset's elements are batches of features.
  static LabeledData unlabeled(const at::Tensor& features);
  static LabeledData unlabeled(const data::Dataset<at::Tensor>& batches);

  /// Whether it still has to be cut into batches.
  bool is_tensors() const { return std::holds_alternative<Tensors>(data_); }

  /// The first examples, and the last `fraction` of them, in their order; the second part has at
  /// least that many. Throws kInvalidArgument for data that is no tensors, for a fraction that is
  /// not between 0 and 1, and if a part would be empty. Keras: validation_split.
  std::pair<LabeledData, LabeledData> split_off_last(double fraction) const;

  /// How tensors become batches.
  struct Batching {
    std::optional<std::int64_t> batch_size = std::nullopt;  ///< global; default 32
    Shuffle shuffle = Shuffle::kNo;
  };
  /// Throws kInvalidArgument for a batch size below 1, and for one beside data that comes in
  /// batches.
  Distributed distributed(const distribute::Strategy& strategy, const Batching& batching) const;

 private:
  struct Tensors {
    at::Tensor features, labels;
  };
  std::variant<data::Dataset<input::LabeledBatch>, Distributed, Tensors> data_;
};

}  // namespace brigade::train
