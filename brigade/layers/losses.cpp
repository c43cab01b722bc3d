#include "brigade/layers/losses.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>

#include <limits>
#include <string>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/device/autocast_scope.h"

namespace brigade::layers::losses {
namespace {

constexpr double kEpsilon = 1e-7;

std::string shape(const at::Tensor& tensor) {
  return base::str_cat(tensor.sizes());
}

void check_predictions(const char* loss, const at::Tensor& predictions) {
  if (!predictions.defined()) refuse(std::string(loss) + ": predictions are an undefined tensor");
  if (predictions.dim() != 2 || predictions.size(1) == 0) {
    refuse(std::string(loss) + ": predictions have shape " + shape(predictions) +
           "; expected [examples, classes]");
  }
  if (!predictions.is_floating_point()) {
    refuse(std::string(loss) + ": predictions have dtype " +
           at::toString(predictions.scalar_type()) + "; expected a floating-point one");
  }
}

void check_label_range(const char* loss, const at::Tensor& labels, std::int64_t classes) {
  if (!labels.is_cpu()) return;
  const auto contiguous = labels.contiguous();
  const auto* values = contiguous.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < contiguous.numel(); ++i) {
    if (values[i] < 0 || values[i] >= classes) {
      refuse(std::string(loss) + ": label " + std::to_string(values[i]) + " of example " +
             std::to_string(i) + " is not a class; the predictions have " +
             std::to_string(classes) + " classes, numbered from 0");
    }
  }
}

/// The labels as int64, after checking them against the predictions.
at::Tensor checked_labels(const char* loss, const at::Tensor& predictions,
                          const at::Tensor& labels) {
  check_predictions(loss, predictions);
  if (!labels.defined()) refuse(std::string(loss) + ": labels are an undefined tensor");
  if (labels.dim() != 1 || labels.size(0) != predictions.size(0)) {
    refuse(std::string(loss) + ": labels have shape " + shape(labels) +
           " and predictions have shape " + shape(predictions) +
           "; expected one label per example, shape [" + std::to_string(predictions.size(0)) + "]");
  }
  if (!at::isIntegralType(labels.scalar_type(), /*includeBool=*/false)) {
    refuse(std::string(loss) + ": labels have dtype " + at::toString(labels.scalar_type()) +
           "; expected integral class numbers (for one value per class, use "
           "categorical_crossentropy)");
  }
  const at::Tensor numbers = labels.scalar_type() == at::kLong ? labels : labels.to(at::kLong);
  check_label_range(loss, numbers, predictions.size(1));
  return numbers;
}

at::Tensor reduce(const at::Tensor& per_example, Reduction reduction) {
  if (reduction == Reduction::kNone) return per_example;
  return reduction == Reduction::kSum ? per_example.sum() : per_example.mean();
}

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels, Reduction reduction) {
  // libtorch's default of ignoring the label -100 would hide bad labels on devices where they are
  // not checked.
  constexpr auto kIgnoreNone = std::numeric_limits<std::int64_t>::min();
  const auto torch_reduction = reduction == Reduction::kNone  ? at::Reduction::None
                               : reduction == Reduction::kSum ? at::Reduction::Sum
                                                              : at::Reduction::Mean;
  return at::cross_entropy_loss(logits, labels, {}, torch_reduction, kIgnoreNone);
}

}  // namespace

at::Tensor sparse_softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  const auto numbers = checked_labels("sparse_softmax_cross_entropy", logits, labels);
  return cross_entropy(device::uncast(logits), numbers, Reduction::kMean);
}

at::Tensor sparse_categorical_crossentropy(const at::Tensor& given, const at::Tensor& labels,
                                           const LossOptions& options) {
  const auto numbers = checked_labels("sparse_categorical_crossentropy", given, labels);
  const at::Tensor predictions = device::uncast(given);
  if (options.from_logits) return cross_entropy(predictions, numbers, options.reduction);
  // The softmax of the logarithms normalizes them.
  const auto logits = at::log(at::clamp(predictions, kEpsilon, 1.0 - kEpsilon));
  return cross_entropy(logits, numbers, options.reduction);
}

at::Tensor categorical_crossentropy(const at::Tensor& given, const at::Tensor& labels,
                                    const LossOptions& options) {
  constexpr auto kName = "categorical_crossentropy";
  const at::Tensor predictions = device::uncast(given);
  check_predictions(kName, predictions);
  if (!labels.defined()) refuse(std::string(kName) + ": labels are an undefined tensor");
  if (labels.sizes() != predictions.sizes()) {
    refuse(std::string(kName) + ": labels have shape " + shape(labels) +
           " and predictions have shape " + shape(predictions) +
           "; expected equal shapes (for class numbers, sparse_categorical_crossentropy)");
  }
  const auto target = labels.to(predictions.scalar_type());
  if (options.from_logits) {
    return reduce(-(target * at::log_softmax(predictions, 1)).sum(1), options.reduction);
  }
  const auto normalized = predictions / predictions.sum(1, /*keepdim=*/true);
  const auto logs = at::log(at::clamp(normalized, kEpsilon, 1.0 - kEpsilon));
  return reduce(-(target * logs).sum(1), options.reduction);
}

at::Tensor compute_average_loss(const at::Tensor& per_example, std::int64_t global_batch_size,
                                const std::optional<at::Tensor>& sample_weight) {
  if (!per_example.defined() || per_example.dim() == 0) {
    refuse(
        "compute_average_loss: per_example must have at least one dimension, one value per "
        "example; a loss that is reduced already cannot be averaged again");
  }
  if (global_batch_size < 0) {
    refuse("compute_average_loss: global_batch_size is " + std::to_string(global_batch_size) +
           "; expected the number of examples of all replicas together, 0 or more");
  }
  const auto weighted =
      sample_weight ? per_example * sample_weight->to(per_example.scalar_type()) : per_example;
  // The sum of no elements is a zero with an autograd graph; a division would turn the gradients
  // into NaN.
  if (global_batch_size == 0) return weighted.slice(0, 0, 0).sum();
  const at::Tensor sum = weighted.sum(comm::accumulation_dtype(weighted.scalar_type()));
  return (sum / static_cast<double>(global_batch_size)).to(weighted.scalar_type());
}

at::Tensor scale_regularization_loss(const at::Tensor& loss, std::int64_t num_replicas) {
  if (!loss.defined()) refuse("scale_regularization_loss: loss is an undefined tensor");
  if (num_replicas <= 0) {
    refuse("scale_regularization_loss: num_replicas is " + std::to_string(num_replicas) +
           "; expected 1 or more");
  }
  const at::Tensor sum = loss.sum(comm::accumulation_dtype(loss.scalar_type()));
  return (sum / static_cast<double>(num_replicas)).to(loss.scalar_type());
}

}  // namespace brigade::layers::losses
