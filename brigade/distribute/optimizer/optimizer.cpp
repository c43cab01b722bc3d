#include "brigade/distribute/optimizer/optimizer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <atomic>
#include <iterator>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/comm/differentiable.h"
#include "brigade/comm/hierarchical.h"
#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/device/captured_graph.h"
#include "brigade/distribute/gradient_audit.h"
#include "brigade/distribute/optimizer/deferred_pass.h"
#include "brigade/distribute/optimizer/gradient_accumulator.h"
#include "brigade/distribute/optimizer/gradient_hooks.h"
#include "brigade/distribute/optimizer/subtree_sums.h"
#include "brigade/distribute/optimizer/sum_of_replicas.h"
#include "brigade/distribute/step_capture.h"
#include "brigade/variables/graph.h"
#include "brigade/variables/memory_order.h"

namespace brigade::distribute {

namespace {

constexpr int kUndeclared = -1;
constexpr const char* kScalerState = "gradient_scaler";

std::vector<at::Tensor> in_parameter_layout(const Gradients& gradients, SparseGradients sparse) {
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    values.push_back(distribute::in_parameter_layout(gradients.values()[i], sparse,
                                                     gradients.variable(i).memory_format()));
  }
  return values;
}

/// Values in memory order, as programs get them: in the shapes of their variables.
std::vector<at::Tensor> in_shapes(const optim::OptimizerState& state,
                                  std::vector<at::Tensor> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const variables::Variable& variable = state.variables()[i];
    if (values[i].defined() && variable.memory_format() != at::MemoryFormat::Contiguous)
      values[i] =
          variables::from_memory_order(values[i], variable.shape(), variable.memory_format());
  }
  return values;
}

void check(const OptimizerOptions& options) {
  check_argument(options.accumulate >= 1,
                 base::str_cat("OptimizerOptions::accumulate is ", options.accumulate,
                               " and must be at least 1."));
  if (!options.global_step) return;
  const variables::Variable& step = *options.global_step;
  check_argument(
      step.dtype() == at::kLong && step.numel() == 1 && !step.trainable(),
      base::str_cat("The global step '", step.name(), "' must be one int64 that is not trained."));
}

/// The updates that the layers of this pass collected: batch norm's moving statistics.
void schedule_updates_of_pass() {
  if (variables::Graph* graph = variables::current_graph()) graph->schedule_update_ops();
}
void run_scheduled_updates() {
  if (variables::Graph* graph = variables::current_graph()) graph->run_scheduled_updates();
}

/// `values[variable]`, for gradients of which none is deferred.
std::vector<at::Tensor> values_of(const ReplicaGradients& gradients) {
  std::vector<at::Tensor> values;
  for (const variables::GradientPart& part : gradients) values.push_back(part.value);
  return values;
}

/// `parts[variable][replica of this process]`: its gradient, undefined if it has none.
using GradientParts = std::vector<std::vector<at::Tensor>>;

/// The sums over the replicas of this process.
std::vector<at::Tensor> sums_here(const GradientParts& parts) {
  std::vector<at::Tensor> sums;
  for (const auto& of_variable : parts) {
    const bool is_there = std::ranges::any_of(of_variable, &at::Tensor::defined);
    sums.push_back(is_there ? sum_of_replicas(of_variable) : at::Tensor());
  }
  return sums;
}

/// The sums over the replicas of all processes. A process may lack a gradient that others have.
std::vector<at::Tensor> sums_over(const WorkerGroup& workers, const optim::OptimizerState& state,
                                  const GradientParts& parts) {
  std::vector<at::Tensor> examples;
  for (const auto& of_variable : parts) {
    const auto first = std::ranges::find_if(of_variable, &at::Tensor::defined);
    examples.push_back(first == of_variable.end() ? at::Tensor() : *first);
  }
  const std::vector<bool> known = present_anywhere(*workers.communicator, examples);
  GradientParts sent;
  std::vector<at::Tensor> like;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!known[i]) continue;
    sent.push_back(parts[i]);
    like.push_back(variables::in_memory_order(state.variables()[i].component(0).detach(),
                                              state.variables()[i].memory_format()));
  }
  const auto received =
      comm::sum_over_replicas(workers.communicator.get(), workers.layout, sent, like);
  std::vector<at::Tensor> sums(parts.size());
  for (std::size_t i = 0, next = 0; i < sums.size(); ++i) {
    if (known[i]) sums[i] = received[next++];
  }
  return sums;
}

/// Sums in the dtypes of their variables: half and bfloat16 are rounded here, once.
std::vector<at::Tensor> rounded(const optim::OptimizerState& state, std::vector<at::Tensor> sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].defined()) sums[i] = sums[i].to(state.variables()[i].dtype());
  }
  return sums;
}

void before_update(const ReplicaContext& context) {
  if (AuditedPass* const audit = context.audit()) audit->before_update();
}
void compare(const ReplicaContext& context) {
  if (AuditedPass* const audit = context.audit()) audit->compare();
}

/// The calling replica, or replica 0 outside replicas.
std::size_t asking_replica() {
  const comm::Replica* replica = comm::current_replica();
  return replica == nullptr ? 0 : static_cast<std::size_t>(replica->local_id);
}

}  // namespace

struct Optimizer::Shared {
  /// What one replica accumulates and counts; for its thread in a run, the caller's outside.
  struct alignas(64) OfReplica {
    OfReplica(const optim::OptimizerState& state, int replica,
              const std::optional<GradientScalerOptions>& options)
        : accumulator(state, replica) {
      if (options) scaler.emplace(*options);
    }
    GradientAccumulator accumulator;
    std::optional<GradientScaler> scaler;
    std::int64_t updates = 0;
    std::int64_t skipped = 0;
    bool was_skipped = false;
    std::int64_t counted = 0;  // the global step, when its variable has this version:
    std::optional<std::int64_t> counted_version = std::nullopt;
  };

  Shared(const optim::OptimizerState& state, std::shared_ptr<GradientSynchronizer> how,
         const OptimizerOptions& options, StrategyRef maker, std::shared_ptr<SubtreeSums> sums)
      : owner(std::move(maker)),
        synchronizer(std::move(how)),
        subtree_sums(std::move(sums)),
        sparse(synchronizer->takes_rows() ? SparseGradients::kKeepRows
                                          : SparseGradients::kMakeDense),
        accumulate(options.accumulate),
        global_step(options.global_step),
        scaler(options.gradient_scaler) {
    for (std::size_t i = 0; i < state.variables().size(); ++i) {
      formats.push_back(state.variables()[i].memory_format());
      if (!state.is_frozen(i)) active.push_back(i);
    }
    for (int replica = 0; replica < state.variables().front().num_components(); ++replica) {
      auto& row = inputs.emplace_back();
      for (const std::size_t i : active) row.push_back(state.variables()[i].component(replica));
      replicas.push_back(std::make_unique<OfReplica>(state, replica, scaler));
      check_differentiable(state, replica);
    }
    GradientReadyListener* const listener = synchronizer->ready_listener();
    if (listener == nullptr || accumulate > 1) return;
    if (!subtree_sums) {
      add_hooks(*listener);
    } else if (subtree_sums->devices_are_subtrees()) {
      sums_listener = std::make_unique<SubtreeReadyListener>(*subtree_sums, *listener);
      add_hooks(*sums_listener);
    }
  }

  void add_hooks(GradientReadyListener& listener) {
    std::vector<std::vector<HookedParameter>> parameters;
    for (const auto& of_replica : inputs) {
      auto& row = parameters.emplace_back();
      for (std::size_t k = 0; k < of_replica.size(); ++k)
        row.push_back({.parameter = of_replica[k],
                       .variable = active[k],
                       .memory_format = formats[active[k]]});
    }
    hooks = std::make_unique<GradientHooks>(listener, std::move(parameters), sparse);
  }

  /// The calling replica's context. The replica must belong to the strategy that made this.
  const ReplicaContext& replica_context() const {
    const ReplicaContext* context = current_replica_context();
    check_state(context != nullptr,
                "An optimizer was used outside of a replica: call it in a function that "
                "Strategy::run runs.");
    owner.check(*context, "An optimizer");
    check_state(
        context->capture() != nullptr || !device::is_capturing(context->device().torch_device),
        "An optimizer was used in a CUDA graph that the program captures itself: its host's "
        "part, such as the count of updates, would be missing in replays. Let "
        "Strategy::compile capture the step.");
    return *context;
  }

  void check_differentiable(const optim::OptimizerState& state, int replica) const {
    const auto& parameters = inputs[static_cast<std::size_t>(replica)];
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      if (parameters[k].requires_grad()) continue;
      throw Error(
          ErrorCode::kFailedPrecondition,
          base::str_cat("Variable '", state.variables()[active[k]].name(),
                        "' does not require a gradient any more in replica ", replica,
                        ": call set_requires_grad(false) before its model is created, in a factory "
                        "for Strategy::create, or freeze it by a group of "
                        "OptimizerOptions::groups."));
    }
  }

  /// Not if the backward pass contains collectives, which use the processes' communicator, and not
  /// if the gradients may turn out not to be applied. Of replicas that compute one after another,
  /// only the last one: the others would all keep what they have reported.
  bool can_reduce_eagerly(int replica, const at::Tensor& loss) const {
    return hooks && !scaler && synchronizer->ready_listener()->is_enabled() &&
           !comm::backward_is_collective(loss) && (!subtree_sums || subtree_sums->is_last(replica));
  }

  void declare(LossScale scale) {
    int declared_before = kUndeclared;
    if (declared.compare_exchange_strong(declared_before, static_cast<int>(scale))) return;
    if (declared_before == static_cast<int>(scale)) return;
    throw Error(
        ErrorCode::kFailedPrecondition,
        base::str_cat("The loss was declared as ",
                      to_string(static_cast<LossScale>(declared_before)), " before and now as ",
                      to_string(scale), ": an optimizer has one scale in every replica and step."));
  }

  bool is_mean() const { return declared == static_cast<int>(LossScale::kMeanOverExamples); }

  const torch::autograd::variable_list& inputs_of(int replica) const {
    return inputs[static_cast<std::size_t>(replica)];
  }

  /// Those that take less memory than when they are computed. If the sums of the device are
  /// completed in this pass (`reduces`), so is theirs.
  DeferredPass::Policy deferral_policy(int replica, bool reduces) const {
    DeferredPass::Policy policy{.wants = [this, replica](std::size_t index, std::int64_t bytes) {
      const at::Tensor& variable = inputs_of(replica)[index];
      return formats[active[index]] == at::MemoryFormat::Contiguous &&
             bytes <= static_cast<std::int64_t>(variable.nbytes());
    }};
    if (reduces) {
      policy.taken = [this, replica](std::size_t index,
                                     const variables::DeferredGradientPtr& gradient) {
        sums_listener->ready(replica, active[index], gradient);
        return false;
      };
    }
    return policy;
  }

  /// The gradients of `loss` times `weight` by the active variables; undefined for variables on
  /// which it does not depend.
  torch::autograd::variable_list differentiate(int replica, const at::Tensor& loss, double weight,
                                               const comm::BackwardPasses* passes) const {
    torch::autograd::variable_list by = inputs[static_cast<std::size_t>(replica)];
    const std::size_t variables = by.size();
    if (passes) std::ranges::move(passes->inputs(), std::back_inserter(by));
    auto gradients = torch::autograd::grad(
        {loss}, by, {at::full(loss.sizes(), weight, loss.options().requires_grad(false))},
        std::nullopt, /*create_graph=*/false, /*allow_unused=*/true);
    const auto first_input = gradients.begin() + static_cast<std::ptrdiff_t>(variables);
    if (passes) {
      passes->divide_gradients({by.data(), variables}, {gradients.data(), variables});
      passes->take_gradients({first_input, gradients.end()});
    }
    gradients.resize(variables);
    return gradients;
  }

  at::Tensor in_layout(const at::Tensor& gradient, std::size_t variable) const {
    return in_parameter_layout(gradient, sparse, formats[variable]);
  }

  struct ByProduct {
    std::size_t variable;
    variables::DeferredGradientPtr gradient;
  };

  /// In a pipeline gradients of weights are left to stages that are idle, which write them to
  /// `parts`. For less than that it is not worth waking a thread.
  DeferredPass::Policy to_idle_stages(const comm::BackwardPasses& passes, ReplicaGradients& parts,
                                      std::vector<ByProduct>& by_products) const {
    constexpr std::int64_t kBytes = 16 << 10;
    const auto wants = [&passes](std::size_t, std::int64_t bytes) {
      return bytes >= kBytes && passes.may_defer();
    };
    const auto taken = [&, this](std::size_t k, const variables::DeferredGradientPtr& gradient) {
      const std::size_t variable = active[k];
      if (gradient->is_by_product()) {
        by_products.push_back({variable, gradient});
        return true;
      }
      passes.defer([this, &value = parts[variable].value, gradient, variable] {
        value = in_layout(gradient->compute(), variable);
      });
      return true;
    };
    return {.wants = wants, .taken = taken};
  }

  /// For an empty per-replica batch: runs backward if it contains collectives, in which the other
  /// replicas wait. The gradients are dropped, since those of a loss of 0 / 0 are NaN.
  void join_backward(int replica, const Objective& objective) const {
    if (comm::backward_is_collective(objective.empty_loss))
      differentiate(replica, objective.empty_loss, 0.0, nullptr);
  }

  OfReplica& of(int replica) { return *replicas[static_cast<std::size_t>(replica)]; }

  /// Whether an update with these gradients is left out, which all replicas decide together.
  bool overflows(const ReplicaContext& context, std::span<const at::Tensor> values,
                 GradientState state) const {
    if (!scaler) return false;
    const bool own = !are_finite(values);
    if (state == GradientState::kAggregated) return own;
    const bool any = context.count == 1
                         ? own
                         : comm::all_reduce_number(*context.communicator, own ? 1 : 0,
                                                   comm::ReduceOp::kMax) != 0;
    return synchronizer->is_true_for_any(context.local_id, any);
  }

  void count_skipped(int replica) {
    OfReplica& own = of(replica);
    ++own.skipped;
    own.was_skipped = true;
    own.scaler->update(GradientScaler::Outcome::kOverflow);
  }

  void count_update(int replica) {
    add_to_global_step(replica);
    note_update(replica);
  }

  /// The device's part of it.
  void add_to_global_step(int replica) const {
    if (!global_step) return;
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView below;  // `note_update` bumps the version
    if (const auto of_job = synchronizer->global_step()) {
      global_step->component(replica).fill_(*of_job);
    } else {
      global_step->component(replica).add_(1);
    }
  }

  /// The host's part of it, for an update that was queued.
  void note_update(int replica) {
    OfReplica& own = of(replica);
    ++own.updates;
    own.was_skipped = false;
    if (own.scaler) own.scaler->update(GradientScaler::Outcome::kFinite);
    if (replica == 0 && progress()) progress()->count_update();
    if (!global_step) return;
    const bool is_known = own.counted_version == step_version(replica);
    global_step->mark_updated(replica);
    if (!is_known) return;
    own.counted_version = step_version(replica);
    own.counted = synchronizer->global_step().value_or(own.counted + 1);
  }

  /// The value of the global step, which replica 0's thread counts along as long as nobody else
  /// changes it.
  std::int64_t global_step_value() {
    OfReplica& own = of(0);
    if (own.counted_version != step_version(0)) {
      own.counted = global_step->component(0).item<std::int64_t>();
      own.counted_version = step_version(0);
    }
    return own.counted;
  }
  std::int64_t step_version(int replica) const {
    return global_step->component(replica)._version();
  }

  void add_micro_batch(int replica, const ReplicaGradients& gradients, const Objective& objective) {
    of(replica).was_skipped = false;
    of(replica).accumulator.add(gradients, objective.global_examples, objective.local_examples);
    if (replica == 0 && progress()) progress()->add_micro_batches(1);
  }
  void clear_accumulated(int replica) {
    GradientAccumulator& accumulator = of(replica).accumulator;
    if (replica == 0 && progress()) progress()->add_micro_batches(-accumulator.micro_batches());
    accumulator.clear();
  }

  /// The weight of a loss in a step. Others add their gradients of means to the same update, if
  /// workers share no collectives.
  double weighted(double weight) const {
    return is_mean() ? weight * synchronizer->loss_weight() : weight;
  }

  /// The progress that the other processes compare with theirs; null for a single process.
  comm::StepProgress* progress() const { return synchronizer->progress(); }

  const StrategyRef owner;
  const std::shared_ptr<GradientSynchronizer> synchronizer;
  const std::shared_ptr<SubtreeSums> subtree_sums;  // null: each replica has its own device
  const SparseGradients sparse;
  std::unique_ptr<SubtreeReadyListener> sums_listener;  // what the hooks notify, if there are sums
  std::unique_ptr<GradientHooks> hooks;  // if the synchronizer reduces during backward
  const int accumulate;
  const std::optional<variables::Variable> global_step;
  const std::optional<GradientScalerOptions> scaler;
  std::vector<std::size_t> active;                     // variables that are not frozen
  std::vector<at::MemoryFormat> formats;               // [variable]
  std::vector<torch::autograd::variable_list> inputs;  // [replica]: their components
  std::vector<std::unique_ptr<OfReplica>> replicas;    // [replica]
  std::atomic<int> declared{kUndeclared};
};

Optimizer::Optimizer(std::shared_ptr<optim::OptimizerState> state,
                     std::shared_ptr<GradientSynchronizer> synchronizer,
                     const OptimizerOptions& options, StrategyRef owner,
                     std::shared_ptr<SubtreeSums> subtree_sums)
    : state_(std::move(state)) {
  check(options);
  shared_ = std::make_shared<Shared>(*state_, std::move(synchronizer), options, std::move(owner),
                                     std::move(subtree_sums));
}

const std::optional<variables::Variable>& Optimizer::global_step() const {
  return shared_->global_step;
}

std::int64_t Optimizer::global_step_value() const {
  check_state(shared_->global_step && in_cross_replica_context(),
              "Optimizer::global_step_value is called outside of Strategy::run, of an optimizer "
              "with OptimizerOptions::global_step.");
  return shared_->global_step_value();
}

void Optimizer::minimize(const at::Tensor& loss, LossScale scale) const {
  const ReplicaContext& context = shared_->replica_context();
  if (shared_->accumulate == 1)
    return apply_in(context, local_gradients(context, loss, scale, GradientUse::kApplied),
                    GradientState::kLocal);
  check_state(context.capture() == nullptr,
              "the optimizer accumulates micro-batches, so not every call updates");
  shared_->declare(scale);
  const Objective objective = objective_of(context, loss, scale, Normalize::kLater);
  shared_->join_backward(context.local_id, objective);
  const auto gradients = backward(context, objective.loss, shared_->weighted(objective.weight()),
                                  GradientUse::kAccumulated);
  before_update(context);
  compare(context);
  shared_->add_micro_batch(context.local_id, gradients, objective);
  if (micro_batches() >= shared_->accumulate) return apply_accumulated(context);
  run_scheduled_updates();
}

Gradients Optimizer::compute_gradients(const at::Tensor& loss, LossScale scale) const {
  const ReplicaContext& context = shared_->replica_context();
  auto values = computed(local_gradients(context, loss, scale, GradientUse::kReturned));
  return {state_->variables(), in_shapes(*state_, std::move(values)), GradientState::kLocal,
          context.step()};
}

ReplicaGradients Optimizer::local_gradients(const ReplicaContext& context, const at::Tensor& loss,
                                            LossScale scale, GradientUse use) const {
  shared_->declare(scale);
  const Objective objective = objective_of(context, loss, scale, Normalize::kNow);
  shared_->join_backward(context.local_id, objective);
  const auto examples = static_cast<double>(objective.global_examples.value_or(1));
  return backward(context, objective.loss, shared_->weighted(objective.weight(examples)), use);
}

ReplicaGradients Optimizer::backward(const ReplicaContext& context, const at::Tensor& loss,
                                     double weight, GradientUse use) const {
  AuditedPass* const audit = context.audit();
  if (audit && audit->delays_reduction()) use = GradientUse::kReturned;
  ReplicaGradients gradients = differentiate(context, loss, weight, use);
  if (audit) audit->record(state_->variables(), values_of(gradients));
  return gradients;
}

/// Whether layers may hand over gradients that are not computed: if all that happens to them is
/// that they are added to others. Micro-batches of a pipeline would leave all of that work to the
/// last one.
bool Optimizer::may_defer(const ReplicaContext& context, GradientUse use) const {
  if (shared_->scaler || context.stages != nullptr || context.capture() != nullptr) return false;
  if (use == GradientUse::kApplied)
    return shared_->subtree_sums && shared_->subtree_sums->shares_device(context.local_id);
  return use == GradientUse::kAccumulated;
}

ReplicaGradients Optimizer::differentiate(const ReplicaContext& context, const at::Tensor& loss,
                                          double weight, GradientUse use) const {
  const int replica = context.local_id;
  for (const variables::Variable& variable : state_->variables()) variable.check_untouched(replica);
  shared_->check_differentiable(*state_, replica);
  const device::AutocastScope full(device::Precision::kFull);
  ReplicaGradients parts(state_->variables().size());
  const comm::BackwardPasses passes;  // waits, before `parts` go, for what writes to them
  if (!loss.defined()) {
    schedule_updates_of_pass();
    return parts;
  }
  check_state(loss.requires_grad(),
              "The loss has no graph: it must be computed from the model's parameters, with "
              "gradients enabled.");
  std::optional<GradientHooks::Watch> watch;
  if (shared_->subtree_sums) shared_->subtree_sums->begin(replica);
  if (use == GradientUse::kApplied && shared_->can_reduce_eagerly(replica, loss))
    watch.emplace(*shared_->hooks, replica, loss);
  std::optional<DeferredPass> deferred;
  std::vector<Shared::ByProduct> by_products;
  const bool has_idle_stages = context.stages != nullptr && !watch;
  if (may_defer(context, use) || has_idle_stages)
    deferred.emplace(loss, shared_->inputs_of(replica),
                     has_idle_stages ? shared_->to_idle_stages(passes, parts, by_products)
                                     : shared_->deferral_policy(replica, watch.has_value()));
  const auto& scaler = shared_->of(replica).scaler;
  const double scale = scaler ? scaler->scale() : 1.0;
  passes.begin(loss);
  const auto gradients = shared_->differentiate(replica, loss, weight * scale, &passes);
  passes.complete_deferred();
  for (const Shared::ByProduct& each : by_products)
    parts[each.variable].value = shared_->in_layout(each.gradient->compute(), each.variable);
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    variables::GradientPart& part = parts[shared_->active[k]];
    if (deferred && !has_idle_stages) part.deferred = deferred->gradient(k);
    const at::Tensor reported = watch ? watch->reported(k, gradients[k]) : at::Tensor();
    if (reported.defined()) part.value = reported;
    if (!part.value.defined()) part.value = shared_->in_layout(gradients[k], shared_->active[k]);
    // Not in place: two variables may have got the same tensor.
    if (scale != 1.0 && part.value.defined()) part.value = part.value.mul(1.0 / scale);
  }
  schedule_updates_of_pass();
  return parts;
}

Gradients Optimizer::aggregate(const Gradients& gradients) const {
  check_state(gradients.state() == GradientState::kLocal,
              "These gradients are the sum over the replicas already: aggregate them once.");
  check_own(gradients);
  const ReplicaContext& context = shared_->replica_context();
  const int replica = context.local_id;
  check_gradients(state_->variables(), gradients.values(), replica);
  before_update(context);
  compare(context);
  std::vector<at::Tensor> sums =
      shared_->synchronizer->aggregate(replica, in_parameter_layout(gradients, shared_->sparse));
  return {state_->variables(), in_shapes(*state_, std::move(sums)), GradientState::kAggregated,
          gradients.step()};
}

void Optimizer::apply_gradients(const Gradients& gradients) const {
  check_own(gradients);
  if (in_cross_replica_context()) {
    check_gradients(state_->variables(), gradients.values());
    return apply_outside(gradients.state(), in_parameter_layout(gradients, shared_->sparse));
  }
  const ReplicaContext& context = shared_->replica_context();
  check_gradients(state_->variables(), gradients.values(), context.local_id);
  if (gradients.step() != context.step()) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        base::str_cat("These gradients are of step ", gradients.step(), " and this is step ",
                      context.step(), ": apply gradients in the step that computed them."));
  }
  apply_in(context, to_parts(in_parameter_layout(gradients, shared_->sparse)), gradients.state());
}

void Optimizer::check_own(const Gradients& gradients) const {
  check_argument(gradients.variables().data() == state_->variables().data(),
                 "These gradients are of another optimizer's variables: apply them with the "
                 "optimizer that computed them.");
}

void Optimizer::apply_in(const ReplicaContext& context, ReplicaGradients gradients,
                         GradientState state) const {
  const int replica = context.local_id;
  before_update(context);
  const device::AutocastScope full(device::Precision::kFull);
  const comm::PhaseScope update(current_step_clock(), comm::StepPhase::kUpdate);
  if (context.capture() != nullptr) return capture_in(context, values_of(gradients), state);
  const bool skips = shared_->scaler && shared_->overflows(context, values_of(gradients), state);
  // Before the audit, for which all replicas wait: so a device does not keep all their gradients.
  const bool adds = !skips && shared_->subtree_sums && state == GradientState::kLocal;
  const std::vector<at::Tensor> values =
      adds ? shared_->subtree_sums->add(replica, std::move(gradients))
           : computed(std::move(gradients));
  compare(context);
  if (skips) return skip_in(replica);
  shared_->synchronizer->apply(replica, values, state);
  shared_->count_update(replica);
  run_scheduled_updates();
}

// Nothing is computed now: what counts updates on the host is done after each replay.
void Optimizer::capture_in(const ReplicaContext& context, std::span<const at::Tensor> values,
                           GradientState state) const {
  check_state(!shared_->scaler,
              "the optimizer has a gradient scaler, with which the host decides about each update");
  check_state(shared_->synchronizer->can_be_captured(),
              "the optimizer's gradients leave the replica's device");
  const int replica = context.local_id;
  // Replicas of one GPU share the state, and make one update, which is replica 0's.
  std::optional<optim::OptimizerState::CaptureScope> scope;
  if (replica == 0) scope.emplace(*state_);
  shared_->synchronizer->apply(replica, values, state);
  shared_->add_to_global_step(replica);
  run_scheduled_updates();
  if (replica != 0) return;
  const auto captured = std::make_shared<const optim::CapturedUpdate>(scope->update(replica));
  context.capture()->add_host_work(
      {.is_current = [state = state_, captured] { return state->can_replay(*captured); },
       .after_replay = [optimizer = *this, captured] { optimizer.count_replay(*captured); }});
}

void Optimizer::count_replay(const optim::CapturedUpdate& captured) const {
  state_->count_replay(/*replica=*/0, captured);
  for (int replica = 0; replica < static_cast<int>(shared_->replicas.size()); ++replica) {
    mark_updated(*state_, captured.has_gradient, replica);
    shared_->note_update(replica);
  }
}

// Statistics of a pass that overflowed may be infinite, too.
void Optimizer::skip_in(int replica) const {
  shared_->count_skipped(replica);
  if (variables::Graph* graph = variables::current_graph()) graph->drop_scheduled_updates();
}

void Optimizer::apply_outside(GradientState state, std::span<const at::Tensor> values) const {
  check_state(state == GradientState::kAggregated,
              "One replica's gradients were applied outside of Strategy::run: apply them in the "
              "replica, or all replicas' average (average_gradients) here.");
  for (std::size_t replica = 0; replica < shared_->replicas.size(); ++replica) {
    for (const variables::Variable& variable : state_->variables())
      variable.check_untouched(static_cast<int>(replica));
  }
  const bool skips = shared_->scaler && !are_finite(values);
  if (!skips && !shared_->synchronizer->apply_outside(values)) apply_everywhere(*state_, values);
  for (int replica = 0; replica < static_cast<int>(shared_->replicas.size()); ++replica) {
    if (skips) {
      shared_->count_skipped(replica);
    } else {
      shared_->count_update(replica);
    }
  }
}

void Optimizer::flush() const {
  if (in_cross_replica_context()) return apply_all_accumulated();
  const ReplicaContext& context = shared_->replica_context();
  if (micro_batches() > 0) apply_accumulated(context);
}

// All replicas' parts are divided by the examples of all replicas, which are counted here for
// batches that were not distributed.
void Optimizer::apply_accumulated(const ReplicaContext& context) const {
  before_update(context);
  GradientAccumulator& accumulator = shared_->replicas[asking_replica()]->accumulator;
  std::int64_t examples = accumulator.global_examples();
  if (shared_->is_mean() && accumulator.local_examples())
    examples += summed_over_replicas(context, *accumulator.local_examples());
  const bool divides = shared_->is_mean() && examples > 0;
  const auto values = accumulator.divided(divides ? static_cast<double>(examples) : 1.0);
  apply_in(context, to_parts(rounded(*state_, values)), GradientState::kLocal);
  shared_->clear_accumulated(context.local_id);
}

void Optimizer::apply_all_accumulated() const {
  const auto& replicas = shared_->replicas;
  std::int64_t examples = replicas.front()->accumulator.global_examples();
  std::int64_t unknown = 0;  // examples that only this process knows
  for (const auto& replica : replicas) {
    check_state(replica->accumulator.micro_batches() == micro_batches(),
                base::str_cat("flush: replica 0 has accumulated ", micro_batches(),
                              " micro-batches and another ", replica->accumulator.micro_batches(),
                              ": a step failed in between. Discard them with discard()."));
    unknown += replica->accumulator.local_examples().value_or(0);
  }
  if (micro_batches() == 0) return;
  const at::NoGradGuard no_grad;
  const WorkerGroup* workers = shared_->synchronizer->workers();
  const bool is_counted = replicas.front()->accumulator.local_examples().has_value();
  if (is_counted && workers)
    unknown = comm::all_reduce_number(*workers->communicator, unknown, comm::ReduceOp::kSum);
  if (is_counted) examples += unknown;
  const bool divides = shared_->is_mean() && examples > 0;
  GradientParts parts(state_->variables().size(), std::vector<at::Tensor>(replicas.size()));
  for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
    const auto values =
        replicas[replica]->accumulator.divided(divides ? static_cast<double>(examples) : 1.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i].defined())
        parts[i][replica] = values[i].to(state_->variables()[i].storage()->master(0).device());
    }
  }
  std::vector<at::Tensor> sums = workers ? sums_over(*workers, *state_, parts) : sums_here(parts);
  apply_outside(GradientState::kAggregated, rounded(*state_, std::move(sums)));
  discard();
}

void Optimizer::discard() const {
  check_state(
      in_cross_replica_context(),
      "Discard accumulated gradients outside of Strategy::run: they belong to the replicas.");
  for (std::size_t replica = 0; replica < shared_->replicas.size(); ++replica)
    shared_->clear_accumulated(static_cast<int>(replica));
}

int Optimizer::micro_batches() const {
  return shared_->replicas[asking_replica()]->accumulator.micro_batches();
}

bool Optimizer::was_skipped() const {
  return shared_->replicas[asking_replica()]->was_skipped;
}

std::int64_t Optimizer::skipped_updates() const {
  return shared_->replicas[asking_replica()]->skipped;
}

double Optimizer::gradient_scale() const {
  const auto& scaler = shared_->replicas[asking_replica()]->scaler;
  return scaler ? scaler->scale() : 1.0;
}

std::int64_t Optimizer::updates() const {
  const auto of_job = shared_->synchronizer->global_step();
  return of_job.value_or(shared_->replicas[asking_replica()]->updates);
}

void Optimizer::set_learning_rate(double rate) const {
  check_state(in_cross_replica_context(),
              "Set the learning rate outside of Strategy::run: all replicas share it.");
  state_->set_learning_rate(rate);
  shared_->synchronizer->set_learning_rate(rate);
}

optim::SavedOptimizer Optimizer::save(std::string_view name) const {
  optim::SavedOptimizer saved = state_->save(name);
  const auto& scaler = shared_->replicas.front()->scaler;
  if (scaler) saved.state[kScalerState] = scaler->save();
  return saved;
}

std::vector<std::string> Optimizer::restore(std::string_view name,
                                            const optim::SavedOptimizer& saved,
                                            optim::MissingSlots missing) const {
  check_state(in_cross_replica_context(),
              "Restore an optimizer outside of Strategy::run: all replicas share it.");
  const bool has_scaler = shared_->scaler && saved.state.has(kScalerState);
  if (has_scaler) GradientScaler(*shared_->scaler).restore(saved.state.at(kScalerState));  // checks
  std::vector<std::string> lacking = state_->restore(name, saved, missing);
  if (has_scaler) {
    for (const auto& replica : shared_->replicas)
      replica->scaler->restore(saved.state.at(kScalerState));
  }
  shared_->synchronizer->set_learning_rate(state_->learning_rate());
  discard();
  return lacking;
}

}  // namespace brigade::distribute
