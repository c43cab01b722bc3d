#include "brigade/train/model/class_weights.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <vector>

#include "brigade/base/error.h"

namespace brigade::train::internal {
namespace {

at::Tensor class_of_each(const at::Tensor& labels) {
  at::Tensor classes = labels;
  if (labels.dim() > 1) classes = labels.size(-1) == 1 ? labels.squeeze(-1) : labels.argmax(-1);
  return classes.is_floating_point() ? classes.round().to(at::kLong) : classes.to(at::kLong);
}

}  // namespace

ClassWeights::ClassWeights(const std::map<std::int64_t, double>& weights) {
  check_argument(!weights.empty(), "class_weight has no classes.");
  std::vector<std::int64_t> classes;
  std::vector<double> values;
  for (const auto& [label, weight] : weights) {
    check_argument(std::isfinite(weight) && weight >= 0, "class_weight of class ", label, " is ",
                   weight, "; weights must be finite, and 0 or more.");
    classes.push_back(label);
    values.push_back(weight);
  }
  classes_ = at::tensor(classes, at::kLong);
  weights_ = at::tensor(values, at::kDouble);
}

at::Tensor ClassWeights::of(const at::Tensor& labels) const {
  const at::Tensor each = class_of_each(labels);
  const at::Tensor classes = classes_.to(each.device());
  const at::Tensor weights = weights_.to(each.device());
  const at::Tensor position = at::searchsorted(classes, each).clamp_max(classes.numel() - 1);
  return at::where(classes.index({position}).eq(each), weights.index({position}),
                   at::ones({}, weights.options()));
}

ModelBatch ClassWeights::applied_to(const ModelBatch& batch) const {
  check_argument(batch.sample_weights.tensors().empty(),
                 "class_weight is set, and the data has sample weights: multiply the sample "
                 "weights by the weights of the classes, and leave class_weight out.");
  check_argument(batch.labels.tensors().size() == 1,
                 "class_weight is for data with one label, and this has ",
                 batch.labels.tensors().size(),
                 ": give the data sample weights by output instead (ModelBatch).");
  ModelBatch weighted = batch;
  weighted.sample_weights = unnamed(of(batch.label()));
  return weighted;
}

}  // namespace brigade::train::internal
