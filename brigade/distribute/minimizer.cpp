#include "brigade/distribute/minimizer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <optional>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/replica_context.h"

namespace brigade::distribute {

namespace {

constexpr int kUndeclared = -1;

const ReplicaContext& replica_context() {
  const ReplicaContext* context = current_replica_context();
  check_state(context != nullptr,
              "An optimizer was used outside of a replica: call it in a function that "
              "Strategy::run runs.");
  return *context;
}

bool is_scalar(const at::Tensor& loss) {
  return loss.dim() == 0;
}

std::int64_t summed_over_replicas(const ReplicaContext& context, std::int64_t value) {
  if (context.count == 1) return value;
  const at::Tensor total = at::empty({1}, at::kLong).fill_(value);
  context.communicator->all_reduce({&total, 1}, comm::ReduceOp::kSum)->wait();
  return total.item<std::int64_t>();
}

void check_one_value_an_example(const at::Tensor& loss, std::optional<std::int64_t> examples) {
  if (!examples || loss.size(0) == *examples) return;
  throw Error(ErrorCode::kInvalidArgument,
              base::str_cat("The loss has ", loss.size(0), " values for ", *examples,
                            " examples: give one value an example, or their mean as a scalar."));
}

/// A loss of any shape and the gradient to start backward with in each of its elements: what the
/// step minimises is their product, summed over elements and replicas. Weighing here costs nothing,
/// while a multiplication of the loss would be a node of the graph (20 us of an MLP's step).
struct Objective {
  at::Tensor loss;  // undefined: this replica has none
  double seed = 1.0;
};

/// A scalar mean, weighted by local over global count.
Objective weighted_mean(const ReplicaContext& context, const at::Tensor& loss) {
  const auto local = context.local_examples();
  if (!local) {
    check_state(context.count == 1,
                "The loss is a mean and the number of examples behind it is not known: pass the "
                "batch that Strategy::distribute gave to Strategy::run, return one loss an "
                "example, or divide by the global batch size and say LossScale::kAlreadyScaled.");
    return {loss};
  }
  if (*local == 0) return {};
  return {loss, static_cast<double>(*local) / static_cast<double>(*context.global_examples())};
}

Objective mean_of_examples(const ReplicaContext& context, const at::Tensor& losses) {
  check_one_value_an_example(losses, context.local_examples());
  const std::int64_t global = context.global_examples()
                                  ? *context.global_examples()
                                  : summed_over_replicas(context, losses.size(0));
  if (losses.numel() == 0) return {};
  // Values beyond the first dimension (pixels, time steps) are averaged within their example.
  const double values_an_example =
      static_cast<double>(losses.numel()) / static_cast<double>(losses.size(0));
  return {losses, 1.0 / (static_cast<double>(global) * values_an_example)};
}

Objective plain_sum(const ReplicaContext& context, const at::Tensor& loss) {
  if (!is_scalar(loss)) check_one_value_an_example(loss, context.local_examples());
  if (loss.numel() == 0 || context.local_examples() == 0) return {};
  return {loss};
}

Objective objective(const ReplicaContext& context, const at::Tensor& loss, LossScale scale) {
  if (scale != LossScale::kMeanOverExamples) return plain_sum(context, loss);
  return is_scalar(loss) ? weighted_mean(context, loss) : mean_of_examples(context, loss);
}

/// Gradients lie as their parameters do, or other replicas could not add them element by element.
at::Tensor laid_out(const at::Tensor& gradient) {
  if (!gradient.defined()) return gradient;
  if (gradient.layout() != at::kStrided) return gradient.to_dense().contiguous();
  return gradient.contiguous();
}

}  // namespace

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

struct Minimizer::Shared {
  Shared(const optim::OptimizerState& state, std::unique_ptr<GradientApplier> how)
      : applier(std::move(how)) {
    for (std::size_t i = 0; i < state.variables().size(); ++i) {
      if (!state.is_frozen(i)) active.push_back(i);
    }
    for (int replica = 0; replica < state.variables().front().num_components(); ++replica) {
      auto& row = inputs.emplace_back();
      for (const std::size_t i : active) row.push_back(state.variables()[i].component(replica));
    }
  }

  void declare(LossScale scale) {
    int declared_before = kUndeclared;
    if (declared.compare_exchange_strong(declared_before, static_cast<int>(scale))) return;
    if (declared_before == static_cast<int>(scale)) return;
    throw Error(
        ErrorCode::kFailedPrecondition,
        base::str_cat("The loss was declared as ",
                      to_string(static_cast<LossScale>(declared_before)), " before and now as ",
                      to_string(scale), ": an optimizer keeps to one, in every replica and step."));
  }

  const std::unique_ptr<GradientApplier> applier;
  std::vector<std::size_t> active;                     // variables that are not frozen
  std::vector<torch::autograd::variable_list> inputs;  // [replica]: their components
  std::atomic<int> declared{kUndeclared};
};

Minimizer::Minimizer(std::shared_ptr<optim::OptimizerState> state,
                     std::unique_ptr<GradientApplier> applier)
    : state_(std::move(state)), shared_(std::make_shared<Shared>(*state_, std::move(applier))) {}

void Minimizer::minimize(const at::Tensor& loss, LossScale scale) const {
  apply_gradients(compute_gradients(loss, scale));
}

Gradients Minimizer::compute_gradients(const at::Tensor& loss, LossScale scale) const {
  const ReplicaContext& context = replica_context();
  shared_->declare(scale);
  for (const variables::Variable& variable : state_->variables())
    variable.check_untouched(context.id);
  std::vector<at::Tensor> values(state_->variables().size());
  const Objective target = objective(context, loss, scale);
  if (target.loss.defined()) {
    check_state(target.loss.requires_grad(),
                "The loss has no graph behind it: it must come from the model's parameters, with "
                "gradients enabled.");
    const auto gradients = torch::autograd::grad(
        {target.loss}, shared_->inputs[context.id],
        {at::full(target.loss.sizes(), target.seed, target.loss.options().requires_grad(false))},
        std::nullopt, /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t k = 0; k < gradients.size(); ++k)
      values[shared_->active[k]] = laid_out(gradients[k]);
  }
  return {state_->variables(), std::move(values), GradientState::kLocal, context.step()};
}

Gradients Minimizer::aggregate(const Gradients& gradients) const {
  check_state(gradients.state() == GradientState::kLocal,
              "These gradients are the sum over the replicas already: aggregate them once.");
  std::vector<at::Tensor> sums =
      shared_->applier->aggregate(replica_context().id, gradients.values());
  return {state_->variables(), std::move(sums), GradientState::kAggregated, gradients.step()};
}

void Minimizer::apply_gradients(const Gradients& gradients) const {
  const ReplicaContext& context = replica_context();
  if (gradients.step() != context.step()) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        base::str_cat("These gradients are of step ", gradients.step(), " and this is step ",
                      context.step(), ": apply gradients in the step that computed them."));
  }
  std::vector<at::Tensor> values;
  for (const at::Tensor& value : gradients.values()) values.push_back(laid_out(value));
  shared_->applier->apply(context.id, values, gradients.state());
}

void Minimizer::set_learning_rate(double rate) const {
  check_state(in_cross_replica_context(),
              "Set the learning rate outside of Strategy::run: it is the replicas' own.");
  state_->set_learning_rate(rate);
}

}  // namespace brigade::distribute
