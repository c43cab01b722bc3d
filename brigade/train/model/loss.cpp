#include "brigade/train/model/loss.h"

#include <ATen/ops/binary_cross_entropy_with_logits.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "brigade/base/strings.h"
#include "brigade/base/unknown_name.h"
#include "brigade/layers/losses.h"
#include "brigade/metrics/metric_shapes.h"

namespace brigade::train {
namespace {

using Maker = Loss::Function (*)(const NamedLossOptions&);

constexpr double kKerasEpsilon = 1e-7;

/// One value per example, for any shape.
at::Tensor mean_of_example(const at::Tensor& values) {
  return values.dim() < 2 ? values : values.flatten(1).mean(1);
}

/// Labels converted to the dtype of the predictions, and both in the same shape.
metrics::internal::Pair aligned(const char* name, const at::Tensor& labels,
                                const at::Tensor& predictions) {
  return metrics::internal::of_same_shape(name, labels.to(predictions.scalar_type()), predictions);
}

Loss::Function sparse_categorical(const NamedLossOptions& options) {
  return [options](const at::Tensor& labels, const at::Tensor& predictions) {
    const bool is_column = labels.dim() == 2 && labels.size(1) == 1;
    return layers::losses::sparse_categorical_crossentropy(
        predictions, is_column ? labels.squeeze(1) : labels,
        {.from_logits = options.from_logits, .reduction = layers::losses::Reduction::kNone});
  };
}

Loss::Function categorical(const NamedLossOptions& options) {
  return [options](const at::Tensor& labels, const at::Tensor& predictions) {
    return layers::losses::categorical_crossentropy(
        predictions, labels.to(predictions.scalar_type()),
        {.from_logits = options.from_logits, .reduction = layers::losses::Reduction::kNone});
  };
}

Loss::Function binary(const NamedLossOptions& options) {
  return [options](const at::Tensor& labels, const at::Tensor& predictions) {
    const auto [y, p] = aligned("binary_crossentropy", labels, predictions);
    if (options.from_logits) {
      return mean_of_example(at::binary_cross_entropy_with_logits(p, y, {}, {}, 0));
    }
    const at::Tensor safe = p.clamp(kKerasEpsilon, 1.0 - kKerasEpsilon);
    return mean_of_example(-(y * safe.log() + (1 - y) * (1 - safe).log()));
  };
}

Loss::Function squared(const NamedLossOptions&) {
  return [](const at::Tensor& labels, const at::Tensor& predictions) {
    const auto [y, p] = aligned("mean_squared_error", labels, predictions);
    return mean_of_example((p - y).square());
  };
}

Loss::Function absolute(const NamedLossOptions&) {
  return [](const at::Tensor& labels, const at::Tensor& predictions) {
    const auto [y, p] = aligned("mean_absolute_error", labels, predictions);
    return mean_of_example((p - y).abs());
  };
}

struct NamedLoss {
  std::string_view name, camel_case, short_name;
  Maker make;
};

constexpr auto kLosses = std::to_array<NamedLoss>({
    {"binary_crossentropy", "BinaryCrossentropy", "bce", binary},
    {"categorical_crossentropy", "CategoricalCrossentropy", "", categorical},
    {"mean_absolute_error", "MeanAbsoluteError", "mae", absolute},
    {"mean_squared_error", "MeanSquaredError", "mse", squared},
    {"sparse_categorical_crossentropy", "SparseCategoricalCrossentropy", "", sparse_categorical},
});

const NamedLoss* find(std::string_view name) {
  if (name.empty()) return nullptr;
  const auto* found = std::find_if(kLosses.begin(), kLosses.end(), [&](const NamedLoss& row) {
    return name == row.name || name == row.camel_case || name == row.short_name;
  });
  return found == kLosses.end() ? nullptr : found;
}

}  // namespace

Loss::Loss(const std::string& name, const NamedLossOptions& options) {
  const NamedLoss* row = find(name);
  if (row == nullptr) throw base::unknown_name("loss", name, "Losses", loss_names());
  name_ = row->name;
  function_ = row->make(options);
  if (options.from_logits) return;
  if (row->make == binary) expected_ = Expected::kEachInRange;
  if (row->make == categorical || row->make == sparse_categorical)
    expected_ = Expected::kDistribution;
}

std::string Loss::prediction_problem(const at::Tensor& predictions) const {
  if (expected_ == Expected::kAnything || predictions.numel() == 0) return "";
  const bool in_range = predictions.ge(0).logical_and(predictions.le(1)).all().item<bool>();
  const bool adds_up = expected_ == Expected::kEachInRange || predictions.dim() < 2 ||
                       predictions.sum(-1).sub(1).abs().max().item<double>() < 1e-2;
  if (in_range && adds_up) return "";
  return base::str_cat("Loss ", name_,
                       " expects probabilities, but the model's predictions are not. End the "
                       "model with a softmax or sigmoid, or declare them logits: Loss(\"",
                       name_, "\", {.from_logits = true}).");
}

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const NamedLoss& row : kLosses) names.emplace_back(row.name);
  return names;
}

}  // namespace brigade::train
