#include "brigade/distribute/optimizer/objective.h"

#include "brigade/base/error.h"
#include "brigade/comm/small_collectives.h"

namespace brigade::distribute {

std::string_view to_string(LossScale scale) {
  switch (scale) {
    case LossScale::kMeanOverExamples:
      return "mean_over_examples";
    case LossScale::kSum:
      return "sum";
    case LossScale::kAlreadyScaled:
      return "already_scaled";
  }
  return "unknown";
}

namespace {

bool is_scalar(const at::Tensor& loss) {
  return loss.dim() == 0;
}

void check_one_value_an_example(const at::Tensor& loss, std::optional<std::int64_t> examples) {
  if (!examples || loss.size(0) == *examples) return;
  throw Error(ErrorCode::kInvalidArgument, "The loss has ", loss.size(0), " values for ", *examples,
              " examples: give one value per example, or their mean as a scalar.");
}

/// A scalar mean is weighted by its number of examples.
Objective weighted_mean(const ReplicaContext& context, const at::Tensor& loss,
                        Normalize normalize) {
  const auto local = context.local_examples();
  if (!local) {
    check_state(context.count == 1 && normalize == Normalize::kNow,
                "The loss is a mean and its number of examples is not known: pass a batch of "
                "Strategy::distribute to Strategy::run, compute one loss per example, or divide by "
                "the global batch size and declare LossScale::kAlreadyScaled.");
    return {.loss = loss, .global_examples = 1};
  }
  return {.loss = *local == 0 ? at::Tensor() : loss,
          .empty_loss = *local == 0 ? loss : at::Tensor(),
          .numerator = static_cast<double>(*local),
          .global_examples = context.global_examples(),
          .local_examples = *local};
}

Objective mean_of_examples(const ReplicaContext& context, const at::Tensor& losses,
                           Normalize normalize) {
  check_one_value_an_example(losses, context.local_examples());
  Objective objective{.global_examples = context.global_examples(),
                      .local_examples = losses.size(0)};
  if (!objective.global_examples && normalize == Normalize::kNow)
    objective.global_examples = summed_over_replicas(context, losses.size(0));
  if (losses.numel() == 0) {
    objective.empty_loss = losses;
    return objective;
  }
  // Values beyond the first dimension (pixels, time steps) are averaged within their example.
  objective.loss = losses;
  objective.denominator = static_cast<double>(losses.numel()) / static_cast<double>(losses.size(0));
  return objective;
}

Objective plain_sum(const ReplicaContext& context, const at::Tensor& loss) {
  if (!is_scalar(loss)) check_one_value_an_example(loss, context.local_examples());
  if (loss.numel() == 0 || context.local_examples() == 0) return {.empty_loss = loss};
  return {.loss = loss};
}

}  // namespace

Objective objective_of(const ReplicaContext& context, const at::Tensor& loss, LossScale scale,
                       Normalize normalize) {
  if (scale != LossScale::kMeanOverExamples) return plain_sum(context, loss);
  return is_scalar(loss) ? weighted_mean(context, loss, normalize)
                         : mean_of_examples(context, loss, normalize);
}

std::int64_t summed_over_replicas(const ReplicaContext& context, std::int64_t value) {
  if (context.count == 1) return value;
  return comm::all_reduce_number(*context.communicator, value, comm::ReduceOp::kSum);
}

}  // namespace brigade::distribute
