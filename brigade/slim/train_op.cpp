#include "brigade/slim/train_op.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "brigade/base/strings.h"
#include "brigade/device/random_scope.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/io/state_json.h"
#include "brigade/optim/clipping.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::slim {

namespace {

using distribute::LossScale;
using variables::Variable;

// The first pass has its own stream of random numbers, separate from every replica's.
constexpr std::uint64_t kFirstPassStream = ~std::uint64_t{1};

std::string names_of(const std::vector<Variable>& variables) {
  std::vector<std::string> names;
  for (const Variable& variable : variables) names.push_back(variable.name());
  return base::join(names, ", ");
}

std::vector<Variable> find_trained_variables(distribute::Strategy& strategy,
                                             const std::vector<std::string>& scopes) {
  const auto scope = strategy.scope();
  const std::vector<Variable> all = variables::trainable_variables();
  check_argument(!all.empty(),
                 "There is nothing to train: the total loss created no trainable variable by name "
                 "(use layers, or get_variable).");
  for (const std::string& name : scopes) {
    if (!variables::trainable_variables(name).empty()) continue;
    refuse("variables_to_train: no trainable variable's name starts with '", name,
           "'; there are: ", names_of(all), ".");
  }
  std::vector<Variable> trained = all;
  std::erase_if(trained, [&](const Variable& variable) {
    return !scopes.empty() && std::ranges::none_of(scopes, [&](const std::string& name) {
      return variable.name().starts_with(name);
    });
  });
  return trained;
}

void check(const TrainOpOptions& options, const std::vector<Variable>& trained) {
  check_argument(options.clip_gradient_norm >= 0.0 && std::isfinite(options.clip_gradient_norm),
                 "clip_gradient_norm is ", options.clip_gradient_norm,
                 " and must be 0 (no limit) or a positive number.");
  check_argument(options.check_numerics_every >= 1, "check_numerics_every is ",
                 options.check_numerics_every, " and must be at least 1.");
  check_argument(std::isfinite(options.gradient_weight), "gradient_weight is ",
                 options.gradient_weight, " and must be a finite number.");
  for (const auto& [name, factor] : options.gradient_multipliers) {
    const auto has_name = [&name = name](const Variable& v) { return v.name() == name; };
    check_argument(std::ranges::any_of(trained, has_name), "gradient_multipliers: '", name,
                   "' is not a trained variable; trained variables: ", names_of(trained), ".");
    check_argument(std::isfinite(factor), "gradient_multipliers: the factor of '", name, "' is ",
                   factor, ".");
  }
}

Variable find_global_step(distribute::Strategy& strategy, const TrainOpOptions& options) {
  if (options.global_step) return *options.global_step;
  const auto scope = strategy.scope();
  return variables::get_or_create_global_step();
}

/// The moving statistics of batch norm, one component per replica.
std::vector<Variable> find_statistics(distribute::Strategy& strategy) {
  const auto scope = strategy.scope();
  std::vector<Variable> found = variables::get_model_variables();
  std::erase_if(found, [](const Variable& variable) {
    return variable.synchronization() != variables::Synchronization::kOnRead;
  });
  return found;
}

distribute::OptimizerOptions optimizer_options(const TrainOpOptions& options,
                                               const Variable& global_step) {
  distribute::OptimizerOptions chosen{.groups = options.groups};
  if (options.count_steps) chosen.global_step = global_step;
  return chosen;
}

std::string number_text(double value) {
  return io::to_json(io::StateTree(value)).json;  // without rounding
}

/// What is done with the gradients. The optimizer is compared where it is created.
comm::Facts facts_of(const TrainOpOptions& options) {
  comm::Facts facts = {{"clip_gradient_norm", number_text(options.clip_gradient_norm)},
                       {"update_ops", base::str_cat(static_cast<int>(options.update_ops))},
                       {"loss_scale", base::str_cat(static_cast<int>(options.loss_scale))},
                       {"gradient_weight", number_text(options.gradient_weight)}};
  for (const auto& [name, factor] : options.gradient_multipliers)
    facts.push_back({base::str_cat("gradient multiplier of ", name), number_text(factor)});
  return facts;
}

}  // namespace

void run_first_pass(distribute::Strategy& strategy, const std::function<void()>& pass) {
  check_state(distribute::in_cross_replica_context(),
              "A train op was created inside a replica: create it outside of Strategy::run.");
  const auto scope = strategy.scope();
  variables::VariableStore& store = variables::require_graph("create_train_op").store();
  const std::size_t before = store.variables().size();
  const std::shared_ptr<device::Placer> placer(std::shared_ptr<void>(), &strategy.placer());
  variables::Graph graph(store, {.reuse = variables::Reuse::kAuto, .placer = placer});
  const auto opened = graph.as_default();
  device::ReplicaGenerator generator(strategy.seed(), kFirstPassStream);
  const device::RandomScope random(generator);
  const at::NoGradGuard no_grad;
  pass();
  const std::vector<Variable> all = store.variables();
  store.make_contiguous(std::span(all).subspan(before));
}

TrainStep::TrainStep(distribute::Strategy& strategy, optim::UpdateRulePtr rule,
                     TrainOpOptions options)
    : strategy_(&strategy),
      options_(std::move(options)),
      defaults_(layers::current_arg_scope()),
      global_step_(find_global_step(strategy, options_)),
      trained_(find_trained_variables(strategy, options_.variables_to_train)),
      optimizer_((check(options_, trained_),
                  strategy.make_optimizer(trained_, std::move(rule),
                                          optimizer_options(options_, global_step_)))),
      loss_check_(std::make_unique<LossCheck>(options_.check_numerics_every)) {
  distribute::check_agreement(
      strategy.workers(), facts_of(options_),
      {.what = "train ops", .advice = "create the same train op in every worker."});
  if (options_.update_ops == UpdateOps::kRunInFirstReplica && strategy.num_replicas_in_sync() > 1)
    statistics_ = find_statistics(strategy);
}

distribute::StepLoss TrainStep::run(const distribute::ReplicaContext& context,
                                    const std::function<at::Tensor()>& total_loss) const {
  variables::Graph& graph = variables::require_graph("A train op");
  const auto defaults = layers::arg_scope(defaults_);
  const at::Tensor loss = total_loss();
  check_loss(context, loss);
  const bool skips = options_.update_ops == UpdateOps::kSkip ||
                     (options_.update_ops == UpdateOps::kRunInFirstReplica && context.id > 0);
  if (skips) graph.drop_update_ops();
  const at::Tensor weighted =
      options_.gradient_weight == 1.0 ? loss : loss * options_.gradient_weight;
  return optimizer_.apply_gradients(
      transform_gradients(optimizer_.compute_gradients(weighted, options_.loss_scale, loss)));
}

std::int64_t TrainStep::global_step_value() const {
  if (optimizer_.global_step()) return optimizer_.global_step_value();
  return global_step_.read().item<std::int64_t>();
}

// Checked before the gradients are reduced, so that no replica updates anything: the error releases
// the other replicas, which wait for this one. On GPUs, where that would wait for each loss,
// `finish` looks at the losses.
void TrainStep::check_loss(const distribute::ReplicaContext& context,
                           const at::Tensor& loss) const {
  check_argument(loss.defined() && loss.dim() == 0,
                 "The total loss must be a scalar: the sum of the losses' means, as returned by "
                 "losses::get_total_loss.");
  const bool is_read = options_.check_numerics && loss.device().is_cpu();
  if (!is_read || context.local_examples() == 0) return;
  const auto value = loss.item<double>();
  if (std::isfinite(value)) return;
  check_finite(value, global_step_.local().item<std::int64_t>(), "nothing was updated");
}

distribute::Gradients TrainStep::transform_gradients(const distribute::Gradients& local) const {
  if (options_.clip_gradient_norm == 0.0 && options_.gradient_multipliers.empty()) return local;
  distribute::Gradients sums = optimizer_.aggregate(local);
  const at::NoGradGuard no_grad;
  for (const auto& [name, factor] : options_.gradient_multipliers) {
    at::Tensor& gradient = sums[name];
    if (!gradient.defined()) {
      refuse("gradient_multipliers: the total loss does not depend on '", name,
             "', so there is no gradient to multiply.");
    }
    gradient = gradient * factor;
  }
  if (options_.clip_gradient_norm > 0.0) optim::clip_by_norm_(sums, options_.clip_gradient_norm);
  return sums;
}

at::Tensor TrainStep::finish(const distribute::PerReplica<distribute::StepLoss>& losses) const {
  const at::NoGradGuard no_grad;
  for (const Variable& statistic : statistics_) statistic.assign(statistic.component(0).clone());
  const at::Tensor loss = strategy_->reduce_loss(losses);
  if (options_.check_numerics && !loss.device().is_cpu())
    loss_check_->add(loss,
                     options_.count_steps ? global_step_value() - 1 : optimizer_.updates() - 1);
  return loss;
}

}  // namespace brigade::slim
