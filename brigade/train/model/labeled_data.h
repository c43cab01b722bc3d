#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "brigade/data/dataset.h"
#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/named_tensors.h"
#include "brigade/train/model/model_batch.h"
#include "brigade/train/model/model_batches.h"

namespace brigade::train {

/// The data of a `Model`: a dataset of global batches, a distributed dataset, or tensors. Each
/// converts implicitly:
///
///   model.fit(images.batch(32));                    // Dataset<LabeledBatch>
///   model.fit({x, y});                              // tensors
///   model.fit({x, y, sample_weight});
///   model.fit(data::zip(images, labels, weights).batch(32));  // batches that are tuples
///   model.fit({batches, {.inputs = {"image", "age"}, .labels = {"class"},
///                        .sample_weight = "weight"}});  // of Dataset<NamedTensors>
///
/// Sample weights are the weights of the examples in the loss and in `weighted_metrics` (see
/// `CompileOptions`); they must be finite, and 0 or more. Keras: the third element of a dataset,
/// and the argument sample_weight of fit and evaluate.
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
  /// With the weight of each example, [N], or of each value of its loss, [N, ...]. Throws
  /// kInvalidArgument, with the shapes or the value, also for weights of another number of examples
  /// and for those that are negative or not finite.
  LabeledData(at::Tensor features, at::Tensor labels, at::Tensor sample_weight);

  /// All examples as one batch, with inputs, labels and weights by name. Throws as the others.
  LabeledData(ModelBatch examples);
  /// Each batch is checked when it is read.
  LabeledData(data::Dataset<ModelBatch> global_batches);
  /// The same; weights that are on a GPU are read there, which waits for it in each step.
  LabeledData(distribute::DistributedDataset<ModelBatch> batches);
  /// Global batches of another type: see `BatchForModel`.
  template <class Batch>
  LabeledData(const data::Dataset<Batch>& global_batches) : data_(general(global_batches)) {}

  /// Which of the tensors of a dataset of NamedTensors are inputs, labels and weights.
  struct Columns {
    std::vector<std::string> inputs = {};
    std::vector<std::string> labels = {};
    /// The weights of all outputs. Unset: none. For weights of one output use `ModelBatch`.
    std::optional<std::string> sample_weight = std::nullopt;
  };
  /// Tensors that are in no column are ignored. Throws kInvalidArgument without inputs. A batch
  /// that lacks a column fails with kNotFound, listing its names.
  LabeledData(const data::Dataset<input::NamedTensors>& global_batches, Columns columns);

  /// Data for `Model::predict`. The elements of a dataset are batches of features.
  static LabeledData unlabeled(const at::Tensor& features);
  static LabeledData unlabeled(const data::Dataset<at::Tensor>& batches);
  /// All tensors are inputs.
  static LabeledData unlabeled(const input::NamedTensors& inputs);
  static LabeledData unlabeled(const data::Dataset<input::NamedTensors>& batches);

  /// Whether the data is in tensors, which are not yet split into batches.
  bool is_tensors() const {
    return std::holds_alternative<Tensors>(data_) || std::holds_alternative<ModelBatch>(data_);
  }

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
  /// Throws kInvalidArgument for a batch size below 1, for a batch size if the data consists of
  /// batches already, and for data whose batches are `ModelBatch`es: `distributed_batches` takes
  /// any.
  Distributed distributed(const distribute::Strategy& strategy, const Batching& batching) const;
  /// The global batches, before they are split among replicas; `batching.input` is not used. Throws
  /// as `distributed`, and kInvalidArgument for data that is distributed already.
  data::Dataset<input::LabeledBatch> global_batches(const Batching& batching) const;

  /// The same for data of any kind; for the sources of `Model` only.
  internal::DistributedBatches distributed_batches(const distribute::Strategy& strategy,
                                                   const Batching& batching) const;
  internal::GlobalBatches all_batches(const Batching& batching) const;

 private:
  struct Tensors {
    at::Tensor features, labels;
  };
  template <class Batch>
  static data::Dataset<ModelBatch> general(const data::Dataset<Batch>& batches) {
    static_assert(!std::same_as<Batch, input::NamedTensors>,
                  "A dataset of NamedTensors does not say which of them are labels: write "
                  "LabeledData(dataset, {.inputs = {\"image\"}, .labels = {\"class\"}}).");
    static_assert(BatchForModel<Batch> || std::same_as<Batch, input::NamedTensors>,
                  "Model cannot train on batches of this type: they must be LabeledBatch, a pair "
                  "or tuple (features, labels) or (features, labels, sample weights) of tensors or "
                  "NamedTensors, or ModelBatch. Convert them with Dataset::map; batch the dataset "
                  "if these are examples.");
    return batches.map([](const Batch& batch) {
      if constexpr (BatchForModel<Batch>) return internal::checked(internal::to_model_batch(batch));
      return ModelBatch();
    });
  }
  bool is_general() const;
  void check_batching(const Batching& batching) const;
  data::Dataset<ModelBatch> general_batches(const Batching& batching) const;

  std::variant<data::Dataset<input::LabeledBatch>, Distributed, Tensors, data::Dataset<ModelBatch>,
               distribute::DistributedDataset<ModelBatch>, ModelBatch>
      data_;
};

}  // namespace brigade::train
