#include "brigade/train/evaluation/feature_extraction.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/layers/end_points.h"

namespace brigade::train::internal {
namespace {

using checkpoint::NamedTensor;
using distribute::PerReplica;
using input::LabeledBatch;

/// Rows keep their order: no worker may read only its own files.
distribute::InputOptions input_in_order(const distribute::Strategy& strategy) {
  distribute::InputOptions options = evaluation_input(strategy);
  if (strategy.has_worker_collectives()) options.auto_shard = distribute::AutoShardPolicy::kData;
  return options;
}

at::Tensor row_of_each(const std::string& name, const at::Tensor& value, std::int64_t examples,
                       const ExtractionOptions& options) {
  check_argument(name != kFeatureLabels && name != kFeaturePaths,
                 "extract_features: an end point cannot be called ", base::quoted(name),
                 ", as another tensor of the file");
  check_argument(value.dim() > 0 && value.size(0) == examples, "extract_features: the end point ",
                 base::quoted(name), " is ", value.sizes(), " for ", examples,
                 " examples; expected a row for each example");
  return options.global_pool && value.dim() == 4 ? value.mean({2, 3}) : value;
}

/// The end points of the calling replica's pass.
std::vector<NamedTensor> rows_of_pass(std::int64_t examples, const ExtractionOptions& options) {
  const layers::EndPoints points = layers::end_points(layers::kEndPoints);
  std::vector<std::string> known;
  for (const variables::GraphTensor& point : points) known.push_back(point.name);
  check_argument(!known.empty(),
                 "extract_features: the model adds no end points to layers::kEndPoints; name them "
                 "in ModelOptions::end_points");
  layers::check_end_points("the model", options.end_points, known);
  std::vector<NamedTensor> rows;
  for (const std::string& name : options.end_points.empty() ? known : options.end_points)
    rows.push_back({name, row_of_each(name, points.at(name), examples, options)});
  return rows;
}

/// Appends batches to the file, in the process that writes it.
class FeatureFile {
 public:
  FeatureFile(distribute::Strategy& strategy, const ExtractionOptions& options)
      : strategy_(strategy), options_(options) {
    if (strategy.is_chief()) writer_.emplace(options.files, options.path);
  }

  /// Collective.
  void append(const PerReplica<LabeledBatch>& batch,
              const PerReplica<std::vector<NamedTensor>>& rows) {
    for (std::size_t i = 0; i < rows[0].size(); ++i) {
      std::vector<at::Tensor> parts;
      for (const auto& part : rows.values()) parts.push_back(part.at(i).tensor);
      append(rows[0][i].name, PerReplica<at::Tensor>(std::move(parts)));
    }
    std::vector<at::Tensor> labels;
    for (const LabeledBatch& part : batch.values()) labels.push_back(part.labels);
    const at::Tensor all = append(kFeatureLabels, PerReplica<at::Tensor>(std::move(labels)));
    append_paths(all.size(0));
  }

  ExtractionReport finish() {
    check_argument(examples_ > 0, "extract_features: the dataset is empty");
    check_argument(is_complete(), "extract_features: ", options_.paths.size(), " paths for ",
                   examples_, " examples; expected one for each, or none");
    if (!writer_) return {.examples = examples_};
    std::map<std::string, std::string> metadata = options_.metadata;
    std::vector<std::string> names;
    for (const auto& each : writer_->written())
      if (each.name != kFeatureLabels && each.name != kFeaturePaths) names.push_back(each.name);
    metadata.emplace("end_points", base::join(names, ","));
    metadata.emplace("global_pool", options_.global_pool ? "true" : "false");
    writer_->finish(metadata);
    return {.examples = examples_, .tensors = writer_->written()};
  }

 private:
  at::Tensor append(const std::string& name, const PerReplica<at::Tensor>& parts) {
    const at::Tensor all = strategy_.gather(parts, 0);
    if (writer_) writer_->append(name, all);
    return all;
  }

  void append_paths(std::int64_t examples) {
    const std::int64_t begin = examples_;
    examples_ += examples;
    if (options_.paths.empty() || !writer_) return;
    check_argument(examples_ <= static_cast<std::int64_t>(options_.paths.size()),
                   "extract_features: ", options_.paths.size(),
                   " paths for more examples; expected one for each, or none");
    const std::span paths =
        std::span(options_.paths)
            .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(examples));
    at::Tensor rows = at::zeros({examples, longest_path()}, at::kByte);
    for (std::int64_t i = 0; i < examples; ++i) {
      const std::string& path = paths[static_cast<std::size_t>(i)];
      std::memcpy(rows[i].mutable_data_ptr(), path.data(), path.size());
    }
    writer_->append(kFeaturePaths, rows);
  }

  std::int64_t longest_path() const {
    std::size_t longest = 1;
    for (const std::string& path : options_.paths) longest = std::max(longest, path.size());
    return static_cast<std::int64_t>(longest);
  }

  bool is_complete() const {
    return options_.paths.empty() || static_cast<std::int64_t>(options_.paths.size()) == examples_;
  }

  distribute::Strategy& strategy_;
  const ExtractionOptions& options_;
  std::optional<checkpoint::RowWriter> writer_;
  std::int64_t examples_ = 0;
};

}  // namespace

ExtractionReport extract_features(const std::function<void(const at::Tensor& features)>& forward,
                                  distribute::Strategy& strategy,
                                  const data::Dataset<LabeledBatch>& dataset,
                                  const ExtractionOptions& options) {
  const at::NoGradGuard no_grad;
  const auto scope = strategy.scope();
  FeatureFile file(strategy, options);
  for (const auto& batch : strategy.distribute(dataset, input_in_order(strategy))) {
    const auto rows = strategy.run(
        [&](distribute::ReplicaContext&, const LabeledBatch& replica_batch) {
          forward(replica_batch.features);
          return rows_of_pass(replica_batch.labels.size(0), options);
        },
        batch);
    file.append(batch, rows);
  }
  return file.finish();
}

}  // namespace brigade::train::internal
