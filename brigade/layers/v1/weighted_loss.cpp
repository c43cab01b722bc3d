#include "brigade/layers/v1/weighted_loss.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <optional>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/local/accumulation.h"
#include "brigade/layers/v1/loss_collection.h"
#include "brigade/variables/graph.h"

namespace brigade::layers::v1::losses {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

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
    refuse(base::str_cat("weights have shape ", given.sizes(), " and losses have shape ",
                         losses.sizes(),
                         "; expected a scalar, or the same number of dimensions, "
                         "each of the same size or 1"));
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

at::Tensor reduced(const at::Tensor& losses, double weight, Reduction reduction) {
  const auto weighted = weight == 1.0 ? losses : losses * weight;
  const auto count = static_cast<double>(losses.numel());
  switch (reduction) {
    case Reduction::kNone:
      return weighted;
    case Reduction::kSum:
      return weighted.sum();
    case Reduction::kMean:
      return divided(unrounded_sum(weighted), count * weight).to(losses.scalar_type());
    case Reduction::kSumOverBatchSize:
      return divided(unrounded_sum(weighted), count).to(losses.scalar_type());
    case Reduction::kSumByNonzeroWeights:
      return divided(unrounded_sum(weighted), weight == 0.0 ? 0.0 : count).to(losses.scalar_type());
  }
  refuse(base::str_cat("Reduction: unknown value ", static_cast<int>(reduction)));
}

at::Tensor reduced(const at::Tensor& losses, const at::Tensor& weights, Reduction reduction) {
  const auto weighted = losses * weights;
  switch (reduction) {
    case Reduction::kNone:
      return weighted;
    case Reduction::kSum:
      return weighted.sum();
    case Reduction::kMean:
      return divided(unrounded_sum(weighted), unrounded_sum(weights.expand_as(losses)))
          .to(losses.scalar_type());
    case Reduction::kSumOverBatchSize:
      return divided(unrounded_sum(weighted), static_cast<double>(losses.numel()))
          .to(losses.scalar_type());
    case Reduction::kSumByNonzeroWeights: {
      const auto present = (weights != 0.0).to(losses.scalar_type());
      return divided(unrounded_sum(weighted), unrounded_sum(present.expand_as(losses)))
          .to(losses.scalar_type());
    }
  }
  refuse(base::str_cat("Reduction: unknown value ", static_cast<int>(reduction)));
}

}  // namespace

at::Tensor compute_weighted_loss(const at::Tensor& losses, const LossOptions& options) {
  if (!losses.defined()) refuse("compute_weighted_loss: losses are an undefined tensor");
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

}  // namespace brigade::layers::v1::losses
