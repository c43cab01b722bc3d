#include "brigade/layers/v1/tf_losses.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "brigade/base/error.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/layers/losses.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::layers::v1::losses {
namespace {

bool fits(const at::Tensor& weights, const at::Tensor& losses) {
  if (weights.dim() == 0) return true;
  if (weights.dim() != losses.dim()) return false;
  for (std::int64_t i = 0; i < weights.dim(); ++i) {
    if (weights.size(i) != 1 && weights.size(i) != losses.size(i)) return false;
  }
  return true;
}

/// The weights as a tensor like the losses. [N, 1] is treated as [N].
at::Tensor checked_weights(const at::Tensor& given, const at::Tensor& losses) {
  if (!given.defined()) refuse("weights are an undefined tensor; leave them out for 1");
  const bool has_column = given.dim() == losses.dim() + 1 && given.size(-1) == 1;
  const auto weights = has_column ? given.squeeze(-1) : given;
  if (!fits(weights, losses)) {
    refuse("weights have shape ", given.sizes(), " and losses have shape ", losses.sizes(),
           "; expected a scalar, or the same number of dimensions, each of the same size or 1");
  }
  return weights.to(losses.options());
}

/// The sum in the accumulation dtype: a mean divides before rounding.
at::Tensor unrounded_sum(const at::Tensor& values) {
  return values.sum(comm::accumulation_dtype(values.scalar_type()));
}

at::Tensor divided(const at::Tensor& sum, double by) {
  return by == 0.0 ? sum * 0.0 : sum / by;
}

at::Tensor divided(const at::Tensor& sum, const at::Tensor& by) {
  const auto is_zero = by == 0.0;
  return at::where(is_zero, sum * 0.0, sum / at::where(is_zero, at::ones_like(by), by));
}

/// `losses` times their weights, reduced. The last two return the sum of the weights and the number
/// of losses whose weight is not 0.
template <class SumOfWeights, class NumPresent>
at::Tensor reduced(const at::Tensor& losses, const at::Tensor& weighted, Reduction reduction,
                   const SumOfWeights& sum_of_weights, const NumPresent& num_present) {
  const auto mean = [&](const auto& by) {
    return divided(unrounded_sum(weighted), by).to(losses.scalar_type());
  };
  switch (reduction) {
    case Reduction::kNone:
      return weighted;
    case Reduction::kSum:
      return weighted.sum();
    case Reduction::kMean:
      return mean(sum_of_weights());
    case Reduction::kSumOverBatchSize:
      return mean(static_cast<double>(losses.numel()));
    case Reduction::kSumByNonzeroWeights:
      return mean(num_present());
  }
  refuse("Reduction: unknown value ", static_cast<int>(reduction));
}

at::Tensor reduced(const at::Tensor& losses, double weight, Reduction reduction) {
  const auto count = static_cast<double>(losses.numel());
  return reduced(
      losses, weight == 1.0 ? losses : losses * weight, reduction, [&] { return count * weight; },
      [&] { return weight == 0.0 ? 0.0 : count; });
}

at::Tensor reduced(const at::Tensor& losses, const at::Tensor& weights, Reduction reduction) {
  const auto total = [&](const at::Tensor& each) { return unrounded_sum(each.expand_as(losses)); };
  return reduced(
      losses, losses * weights, reduction, [&] { return total(weights); },
      [&] { return total((weights != 0.0).to(losses.scalar_type())); });
}

/// The sum, on the first one's device.
at::Tensor sum_of(const std::vector<at::Tensor>& losses) {
  at::Tensor sum = losses.front();
  for (std::size_t i = 1; i < losses.size(); ++i) sum = sum + losses[i].to(sum.device());
  return sum;
}

/// What a loss compares, in one dtype.
struct Compared {
  at::Tensor predictions, labels;
};

/// Both, after checking that they have the same shape.
Compared matched(const char* loss, const at::Tensor& predictions, const at::Tensor& labels) {
  if (!predictions.defined()) refuse(loss, ": predictions are an undefined tensor");
  if (!labels.defined()) refuse(loss, ": labels are an undefined tensor");
  if (predictions.sizes() != labels.sizes()) {
    refuse(loss, ": predictions have shape ", predictions.sizes(), " and labels have shape ",
           labels.sizes(), "; expected equal shapes");
  }
  const at::Tensor wide = device::uncast(predictions);
  return {wide, labels.to(wide.scalar_type())};
}

void check_smoothing(const char* loss, double smoothing) {
  if (smoothing >= 0.0 && smoothing < 1.0) return;
  refuse(loss, ": label_smoothing is ", smoothing, "; expected a number from 0 to below 1");
}

at::Tensor weighted(const char* name, const at::Tensor& losses, LossOptions options) {
  if (options.scope.empty()) options.scope = name;
  return compute_weighted_loss(losses, options);
}

/// The options that all losses share.
template <class Options>
LossOptions common(const Options& options) {
  return {.weights = options.weights,
          .reduction = options.reduction,
          .collect = options.collect,
          .scope = options.scope};
}

/// How many elements of each example have a weight, [N, 1, ...].
at::Tensor present(const at::Tensor& like, const at::Tensor& weights,
                   at::IntArrayRef but_examples) {
  const auto each = (weights != 0.0).to(like.scalar_type()).expand_as(like);
  return each.sum(but_examples, /*keepdim=*/true);
}

/// The quotient; 0 where the divisor is 0.
at::Tensor divided_if_positive(const at::Tensor& values, const at::Tensor& by) {
  return values / by.clamp_min(1.0) * (by > 0.0).to(values.scalar_type());
}

}  // namespace

at::Tensor compute_weighted_loss(const at::Tensor& given, const LossOptions& options) {
  if (!given.defined()) refuse("compute_weighted_loss: losses are an undefined tensor");
  const at::Tensor losses = device::uncast(given);
  auto loss =
      options.weights.all() != nullptr
          ? reduced(losses, *options.weights.all(), options.reduction)
          : reduced(losses, checked_weights(*options.weights.each(), losses), options.reduction);
  if (auto* graph = variables::current_graph(); graph != nullptr) {
    const variables::NameScope scope(*graph,
                                     options.scope.empty() ? "weighted_loss" : options.scope);
    if (options.collect) graph->add_loss("value", loss);
  }
  return loss;
}

void add_loss(const at::Tensor& loss, const std::string& name) {
  check_argument(loss.defined(), "add_loss: the loss is an undefined tensor");
  variables::require_graph("add_loss").add_loss(name, loss);
}

std::vector<at::Tensor> get_losses(std::string_view scope) {
  return variables::require_graph("get_losses").losses(scope);
}

std::vector<at::Tensor> get_regularization_losses(std::string_view scope) {
  return variables::get_regularization_losses(scope);
}

at::Tensor get_regularization_loss(std::string_view scope) {
  const auto losses = get_regularization_losses(scope);
  return losses.empty() ? at::zeros({}) : sum_of(losses);
}

at::Tensor get_total_loss(const TotalLossOptions& options) {
  auto losses = get_losses(options.scope);
  if (options.add_regularization_losses) {
    const auto regularization = get_regularization_losses();
    losses.insert(losses.end(), regularization.begin(), regularization.end());
  }
  if (losses.empty()) {
    throw Error(ErrorCode::kFailedPrecondition,
                "get_total_loss: this pass has no loss in the scope '", options.scope,
                "'; call a loss function or add_loss first");
  }
  return sum_of(losses);
}

at::Tensor softmax_cross_entropy(const at::Tensor& given, const at::Tensor& onehot_labels,
                                 const SmoothedLossOptions& options) {
  auto [logits, labels] = matched("softmax_cross_entropy", given, onehot_labels);
  if (logits.dim() != 2) {
    refuse("softmax_cross_entropy: logits have shape ", logits.sizes(),
           "; expected [examples, classes]");
  }
  const double smoothing = options.label_smoothing;
  check_smoothing("softmax_cross_entropy", smoothing);
  if (smoothing > 0.0) {
    labels = labels * (1.0 - smoothing) + smoothing / static_cast<double>(logits.size(1));
  }
  const auto losses = -(labels * at::log_softmax(logits, 1)).sum(1);
  return weighted("softmax_cross_entropy_loss", losses, common(options));
}

at::Tensor sparse_softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                        const LossOptions& options) {
  const auto per_example = layers::losses::sparse_categorical_crossentropy(
      logits, labels, {.reduction = layers::losses::Reduction::kNone});
  return weighted("sparse_softmax_cross_entropy_loss", per_example, options);
}

at::Tensor sigmoid_cross_entropy(const at::Tensor& given, const at::Tensor& multi_class_labels,
                                 const SmoothedLossOptions& options) {
  auto [logits, labels] = matched("sigmoid_cross_entropy", given, multi_class_labels);
  const double smoothing = options.label_smoothing;
  check_smoothing("sigmoid_cross_entropy", smoothing);
  if (smoothing > 0.0) labels = labels * (1.0 - smoothing) + 0.5 * smoothing;
  const auto losses =
      at::binary_cross_entropy_with_logits(logits, labels, {}, {}, at::Reduction::None);
  return weighted("sigmoid_cross_entropy_loss", losses, common(options));
}

at::Tensor log_loss(const at::Tensor& given, const at::Tensor& labels,
                    const LogLossOptions& options) {
  const double epsilon = options.epsilon;
  const auto [predictions, targets] = matched("log_loss", given, labels);
  const auto losses = -targets * at::log(predictions + epsilon) -
                      (1.0 - targets) * at::log(1.0 - predictions + epsilon);
  return weighted("log_loss", losses, common(options));
}

at::Tensor hinge_loss(const at::Tensor& given, const at::Tensor& labels,
                      const LossOptions& options) {
  const auto [logits, zeros_and_ones] = matched("hinge_loss", given, labels);
  const auto signs = zeros_and_ones * 2.0 - 1.0;
  return weighted("hinge_loss", at::relu(1.0 - signs * logits), options);
}

at::Tensor absolute_difference(const at::Tensor& given, const at::Tensor& labels,
                               const LossOptions& options) {
  const auto [predictions, targets] = matched("absolute_difference", given, labels);
  return weighted("absolute_difference", (predictions - targets).abs(), options);
}

at::Tensor mean_squared_error(const at::Tensor& given, const at::Tensor& labels,
                              const LossOptions& options) {
  const auto [predictions, targets] = matched("mean_squared_error", given, labels);
  return weighted("mean_squared_error", (predictions - targets).square(), options);
}

at::Tensor huber_loss(const at::Tensor& given, const at::Tensor& labels,
                      const HuberLossOptions& options) {
  const double delta = options.delta;
  if (!(delta > 0.0)) refuse("huber_loss: delta is ", delta, "; expected more than 0");
  const auto [predictions, targets] = matched("huber_loss", given, labels);
  const auto error = (predictions - targets).abs();
  const auto quadratic = at::clamp_max(error, delta);
  return weighted("huber_loss", 0.5 * quadratic.square() + delta * (error - quadratic),
                  common(options));
}

at::Tensor cosine_distance(const at::Tensor& given, const at::Tensor& labels, std::int64_t axis,
                           const LossOptions& options) {
  const auto [predictions, targets] = matched("cosine_distance", given, labels);
  if (axis < -predictions.dim() || axis >= predictions.dim()) {
    refuse("cosine_distance: predictions of shape ", predictions.sizes(), " have no axis ", axis);
  }
  const auto losses = 1.0 - (predictions * targets).sum(axis, /*keepdim=*/true);
  return weighted("cosine_distance_loss", losses, options);
}

at::Tensor mean_pairwise_squared_error(const at::Tensor& given, const at::Tensor& labels,
                                       const LossOptions& options) {
  constexpr auto kName = "mean_pairwise_squared_error";
  const auto [predictions, targets] = matched(kName, given, labels);
  const auto differences = predictions - targets;
  if (differences.dim() < 2) {
    refuse(kName, ": predictions have shape ", predictions.sizes(), "; expected [examples, ...]");
  }
  if (const auto* each = options.weights.each();
      each != nullptr && each->defined() && each->dim() != 0 && each->dim() != differences.dim()) {
    refuse(kName, ": weights have shape ", each->sizes(), "; expected [", differences.size(0),
           ", 1, ...], as many dimensions as predictions of shape ", differences.sizes());
  }
  std::vector<std::int64_t> rest;
  for (std::int64_t i = 1; i < differences.dim(); ++i) rest.push_back(i);
  const auto weights = options.weights.all() != nullptr
                           ? at::full({}, *options.weights.all(), differences.options())
                           : options.weights.each()->to(differences.options());
  const auto count = present(differences, weights, rest);
  const auto squares = differences.square().sum(rest, /*keepdim=*/true);
  const auto squared_sum = differences.sum(rest, /*keepdim=*/true).square();
  const auto pairs = 2.0 * divided_if_positive(squares, count - 1.0) -
                     2.0 * divided_if_positive(squared_sum, count * (count - 1.0));
  LossOptions summed = options;
  summed.reduction = Reduction::kSum;
  return weighted(kName, pairs, summed);
}

}  // namespace brigade::layers::v1::losses
