#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brigade/checkpoint/row_writer.h"
#include "brigade/data/dataset.h"
#include "brigade/distribute/strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/io/file_system.h"
#include "brigade/train/model/evaluate.h"

namespace brigade::train {

/// The tensor of labels in a file of features, int64 [N].
inline constexpr const char* kFeatureLabels = "labels";
/// The tensor of paths, uint8 [N, length of the longest]: UTF-8, zeros at the end.
inline constexpr const char* kFeaturePaths = "paths";

/// Options of `extract_features`.
struct ExtractionOptions {
  /// The safetensors file to write; an existing one is replaced. Its folder must exist.
  io::Path path;
  /// The end points to write, each a tensor [N, ...] of this name. Empty: all that the model adds
  /// to the collection `layers::kEndPoints`.
  std::vector<std::string> end_points = {};
  /// Whether end points [N, C, H, W] become their means over all positions, [N, C].
  bool global_pool = false;
  /// [example]: the file that it is from (`input::ImageFolder::file_paths`), for the tensor
  /// `kFeaturePaths`. Empty: not known. The dataset must not be shuffled.
  std::vector<std::string> paths = {};
  /// Further text for the file's metadata, which has the names of the end points
  /// ("end_points", separated by commas) and whether they were pooled ("global_pool").
  std::map<std::string, std::string> metadata = {};
  /// The file system of `path`.
  std::shared_ptr<io::FileSystem> files = io::posix_file_system();
};

/// What `extract_features` has written.
struct ExtractionReport {
  std::int64_t examples = 0;
  /// The tensors of the file.
  std::vector<checkpoint::RowWriter::Written> tensors = {};
};

namespace internal {

/// `extract_features`, where `forward` calls the calling replica's module.
ExtractionReport extract_features(const std::function<void(const at::Tensor& features)>& forward,
                                  distribute::Strategy& strategy,
                                  const data::Dataset<input::LabeledBatch>& dataset,
                                  const ExtractionOptions& options);

}  // namespace internal

/// Computes end points of a frozen model for each example of one epoch of `dataset`, whose elements
/// are global batches, on all replicas of `strategy`, and writes them to a safetensors file, with
/// the labels. For training a small model on the features of a large one, for nearest neighbors,
/// for plots:
///
///   auto inception = strategy.create(
///       models::make_model_function("inception_v3", {.end_points = {"PreLogits"}}), example);
///   models::import_weights(files, "inception_v3.pth", inception.variables());
///   train::extract_features(strategy, inception, images.batch(64),
///                           {.path = "features.safetensors", .global_pool = true});
///   const auto features = input::from_safetensors("features.safetensors", "PreLogits", "labels");
///
/// The model adds its end points to the collection `layers::kEndPoints` in each pass:
/// `models::ModelOptions::end_points`, `models::SequentialOptions::end_points`, or, of a function
/// of layers of your own, `.outputs_collections = {layers::kEndPoints}`.
///
/// - Rows are in the order of the dataset, on any number of replicas and workers; every example
///   counts once, also of a smaller last batch. They have the dtype that was computed.
/// - The model is in evaluation mode during the call and in training mode afterwards; no autograd
///   graph is built, and no variable and no statistic changes.
/// - No more than a batch of features is in memory (`checkpoint::RowWriter`). The file appears when
///   it is complete: after an error the old one is still there.
/// - With several workers it is a collective; the chief writes. Workers without collectives each
///   compute all examples.
///
/// Throws kInvalidArgument for an end point that the model does not add (listing those that it
/// does), one that has no row per example, an empty dataset, and as many paths as there are not
/// examples; and as `checkpoint::RowWriter`. Thread-safety: as `Strategy::run`.
template <class Module>
ExtractionReport extract_features(distribute::Strategy& strategy,
                                  const distribute::Replicated<Module>& model,
                                  const data::Dataset<input::LabeledBatch>& dataset,
                                  const ExtractionOptions& options) {
  const internal::EvaluationMode mode(model);
  return internal::extract_features([&model](const at::Tensor& features) { model(features); },
                                    strategy, dataset, options);
}

}  // namespace brigade::train
