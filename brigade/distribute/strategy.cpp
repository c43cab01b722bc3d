#include "brigade/distribute/strategy.h"

#include <ATen/core/grad_mode.h>

#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/strategy_engine.h"
#include "brigade/distribute/worker_group.h"
#include "brigade/io/state_json.h"

namespace brigade::distribute {

namespace {

Strategy* checked_for_scope(Strategy& strategy) {
  const Strategy* open = current_strategy();
  if (open == nullptr || open == &strategy) return &strategy;
  throw Error(ErrorCode::kFailedPrecondition, "Mixing different strategies: the scope of ",
              strategy.name(), " was opened inside the scope of another, ", open->name(), ".");
}

std::string group_text(const optim::ParameterGroup& group) {
  const auto rate = [](const std::optional<double>& value) {
    return value ? io::to_json(io::StateTree(*value)).json : "the rule's";
  };
  return base::str_cat(base::join(group.names, " "), ": learning_rate ", rate(group.learning_rate),
                       ", weight_decay ", rate(group.weight_decay), group.frozen ? ", frozen" : "",
                       group.layer_adaptation ? "" : ", without layer adaptation");
}

std::string scaler_text(const std::optional<GradientScalerOptions>& scaler) {
  if (!scaler) return "none";
  const auto text = [](double value) { return io::to_json(io::StateTree(value)).json; };
  return base::str_cat("initial_scale ", text(scaler->initial_scale), ", growth_factor ",
                       text(scaler->growth_factor), ", backoff_factor ",
                       text(scaler->backoff_factor), ", growth_interval ", scaler->growth_interval);
}

/// The facts that decide an optimizer's updates, and when gradients are reduced.
comm::Facts optimizer_facts(const optim::UpdateRule& rule,
                            std::span<const variables::Variable> variables,
                            const OptimizerOptions& options, const Strategy& strategy) {
  comm::Facts facts = {{"optimizer", std::string(rule.name())}};
  const io::StateTree config = rule.config();
  for (const auto& [key, value] : config.as_dict()) facts.push_back({key, io::to_json(value).json});
  facts.push_back({"gradient_scaler", scaler_text(options.gradient_scaler)});
  facts.push_back({"precision", std::string(device::to_string(strategy.precision()))});
  facts.push_back({"numerics", std::string(device::to_string(strategy.numerics()))});
  facts.push_back({"accumulate", base::str_cat(options.accumulate)});
  facts.push_back({"global_step", options.global_step ? options.global_step->name() : "none"});
  for (const optim::ParameterGroup& group : options.groups)
    facts.push_back({"parameter group", group_text(group)});
  facts.push_back({"number of variables", base::str_cat(variables.size())});
  for (const variables::Variable& each : variables) facts.push_back({"variable", each.name()});
  return facts;
}

}  // namespace

Strategy::Strategy(StrategyParts parts) : engine_(std::make_unique<Engine>(std::move(parts))) {}
Strategy::~Strategy() = default;

const std::string& Strategy::name() const {
  return engine_->parts.name;
}
int Strategy::num_replicas_in_sync() const {
  return engine_->range.total;
}
int Strategy::logical_replicas() const {
  return engine_->parts.logical_replicas;
}
const std::string& Strategy::arithmetic_fingerprint() const {
  return engine_->arithmetic;
}
ReplicaRange Strategy::replica_range() const {
  return engine_->range;
}
const WorkerGroup* Strategy::workers() const {
  return engine_->parts.workers.get();
}
const WorkerGroup* Strategy::replica_workers() const {
  return engine_->replica_workers();
}
int Strategy::num_workers() const {
  return engine_->worker().count;
}
int Strategy::worker_index() const {
  return engine_->worker().index;
}
const ServerLayout& Strategy::servers() const {
  return engine_->parts.servers;
}
Coordination* Strategy::coordination() const {
  return engine_->parts.coordination.get();
}
bool Strategy::audits_gradients() const {
  return engine_->audit != nullptr;
}
bool Strategy::is_chief() const {
  return coordination() ? coordination()->is_coordinator() : worker_index() == 0;
}
bool Strategy::has_worker_collectives() const {
  return workers() && workers()->count() > 1;
}
WorkerLayout Strategy::worker_layout() const {
  if (workers() && !replica_workers())  // each reads all
    return {.replicas = replica_range(), .logical_replicas = logical_replicas()};
  if (!workers())
    return {.replicas = replica_range(),
            .num_workers = num_workers(),
            .worker = worker_index(),
            .is_independent = num_workers() > 1,
            .logical_replicas = logical_replicas()};
  return {.replicas = replica_range(),
          .num_workers = replica_workers()->count(),
          .worker = replica_workers()->index(),
          .workers = replica_workers()->communicator,
          .progress = {workers()->communicator, &engine_->progress()},
          .logical_replicas = logical_replicas(),
          .audits_gradients = audits_gradients()};
}
std::vector<InputContext> Strategy::input_contexts(const InputOptions& options) const {
  check_input_options(options, BatchKind::kPerReplica, logical_replicas());
  if (options.replication == InputReplication::kPerWorker) {
    const WorkerLayout layout = worker_layout();
    return {{.num_input_pipelines = layout.num_workers,
             .input_pipeline_id = layout.worker,
             .num_replicas_in_sync = num_replicas_in_sync()}};
  }
  // Workers without collectives count their own replicas only.
  const bool is_independent = !workers() && num_workers() > 1;
  const int first = is_independent ? worker_index() * num_local_replicas() : replica_range().first;
  const int pipelines =
      is_independent ? num_workers() * num_local_replicas() : num_replicas_in_sync();
  std::vector<InputContext> contexts;
  for (const c10::Device device : torch_devices()) {
    contexts.push_back({.num_input_pipelines = pipelines,
                        .input_pipeline_id = first + static_cast<int>(contexts.size()),
                        .num_replicas_in_sync = num_replicas_in_sync(),
                        .torch_device = device.str()});
  }
  return contexts;
}
void Strategy::check_not_running(std::string_view call) const {
  check_state(in_cross_replica_context() && !engine_->running, "Strategy::", call,
              " was called while replicas run, which update the state: call it after Strategy::run "
              "has returned.");
}
std::optional<std::int64_t> Strategy::global_step() const {
  for (const auto& each : engine_->synchronizers) {
    const auto synchronizer = each.lock();
    if (!synchronizer) continue;
    if (const auto step = synchronizer->global_step()) return step;
  }
  return std::nullopt;
}
std::optional<UpdateStaleness> Strategy::staleness() const {
  check_not_running("staleness");
  for (const auto& synchronizer : engine_->living_synchronizers())
    if (const UpdateStaleness* staleness = synchronizer->staleness()) return *staleness;
  return std::nullopt;
}
void Strategy::set_global_step(std::int64_t step) {
  check_argument(step >= 0, "The global step is ", step, "; it must be 0 or more.");
  for (const auto& synchronizer : engine_->living_synchronizers())
    synchronizer->set_global_step(step);
}
void Strategy::follow_global_step(std::int64_t step) {
  for (const auto& synchronizer : engine_->living_synchronizers())
    if (synchronizer->global_step()) return synchronizer->follow_global_step(step);
}
void Strategy::fetch_state() const {
  check_not_running("fetch_state");
  for (const auto& communicator : engine_->communicators) communicator->finish();
  for (const auto& synchronizer : engine_->living_synchronizers()) {
    synchronizer->fetch_state();
    for (const auto& each : engine_->averages) {
      if (const auto averages = each.lock()) synchronizer->fetch_averages(**averages);
    }
  }
}
std::shared_ptr<const void> Strategy::fetch_averages(
    const optim::ExponentialMovingAverage& averages) {
  auto fetched = std::make_shared<const optim::ExponentialMovingAverage* const>(&averages);
  std::erase_if(engine_->averages, [](const auto& each) { return each.expired(); });
  engine_->averages.emplace_back(fetched);
  return fetched;
}
void Strategy::store_state() {
  check_not_running("store_state");
  for (const auto& synchronizer : engine_->living_synchronizers()) synchronizer->store_state();
}
void Strategy::start_job() {
  check_not_running("start_job");
  for (const auto& synchronizer : engine_->living_synchronizers()) synchronizer->start_job();
}
const std::vector<device::Device>& Strategy::devices() const {
  return engine_->parts.devices;
}
const device::Device& Strategy::parameter_device() const {
  return engine_->controller ? *engine_->controller : devices().front();
}
device::Placer& Strategy::placer() const {
  return *engine_->placer;
}
variables::VariableStore& Strategy::variable_store() const {
  return engine_->store;
}
std::uint64_t Strategy::seed() const {
  return engine_->parts.seed;
}
std::uint64_t Strategy::step() const {
  return engine_->progress().step();
}
void Strategy::set_step(std::uint64_t step) {
  engine_->progress().move_to(step);
}
void Strategy::set_precision(device::Precision precision) {
  check_not_running("set_precision");
  engine_->precision = precision;
}
device::Precision Strategy::precision() const {
  return engine_->precision;
}
void Strategy::set_numerics(device::Numerics numerics) {
  check_not_running("set_numerics");
  engine_->numerics = numerics;
}
const device::GraphFactory& Strategy::graph_factory() const {
  return engine_->parts.graph;
}
device::Numerics Strategy::numerics() const {
  return engine_->numerics;
}
std::vector<c10::Device> Strategy::torch_devices() const {
  return engine_->torch_devices;
}

Strategy* current_strategy() {
  return kStrategySlot.get();
}

Strategy& require_strategy(std::string_view what) {
  if (Strategy* strategy = current_strategy()) return *strategy;
  throw Error(ErrorCode::kFailedPrecondition, "'", what,
              "' needs an open strategy scope: write `auto scope = strategy.scope();` first.");
}

Strategy::Scope::Scope(Strategy& strategy)
    : strategy_(kStrategySlot, checked_for_scope(strategy)),
      store_(variables::kStoreSlot, &strategy.engine_->store),
      graph_(variables::kGraphSlot, &strategy.engine_->graph) {}

/// Throws also in a merge_call, which is inside of a run.
void Strategy::check_outside_run(std::string_view made) const {
  check_state(in_cross_replica_context() && !engine_->running, made,
              " inside of Strategy::run, where each step would start with a new one: make it once, "
              "before the first run.");
}

void Strategy::build_replicas(const std::function<void()>& build_one) {
  check_outside_run("A model was made");
  const std::uint64_t model = engine_->models_created++;
  for (int replica = 0; replica < num_local_replicas(); ++replica) {
    engine_->creation.begin_step(model);  // the same random numbers in every replica
    const device::RandomScope random(engine_->creation);
    build_one();
  }
}

std::vector<variables::Variable> Strategy::adopt(
    std::span<const std::shared_ptr<torch::nn::Module>> modules, const std::string& name) {
  std::vector<variables::Variable> adopted = engine_->store.adopt(modules, name);
  if (engine_->placer->logs()) log_placement(*modules.front(), adopted);
  return adopted;
}

std::shared_ptr<const CreatedModel> Strategy::register_model(
    std::vector<variables::Variable> variables, std::vector<ModuleMode> modes) {
  auto model = std::make_shared<const CreatedModel>(StrategyRef(*this), std::move(variables),
                                                    std::move(modes));
  std::erase_if(engine_->models, [](const auto& known) { return known.expired(); });
  engine_->models.push_back(model);
  return model;
}

/// Logs the placement of a model that is a module: of its variables and its submodules.
void Strategy::log_placement(const torch::nn::Module& model,
                             std::span<const variables::Variable> adopted) const {
  std::vector<std::string> replicas;
  for (const device::Device& device : devices()) replicas.push_back(device.name.to_string());
  const std::string everywhere = base::join(replicas, " ");
  const std::string trained_on =
      engine_->controller ? parameter_device().name.to_string() : everywhere;
  for (const variables::Variable& variable : adopted) {
    const bool is_trained = variable.trainable();
    if (is_trained && servers().count > 0) continue;  // logged when the optimizer is made
    placer().record(device::PlacedKind::kVariable, variable.name(),
                    is_trained ? trained_on : everywhere);
  }
  for (const auto& part : model.named_modules("", /*include_self=*/false))
    placer().record(device::PlacedKind::kLayer, part.key(), everywhere);
}

Strategy::BuiltFunction Strategy::build_variables(const std::string& name,
                                                  const std::function<void()>& pass) {
  check_outside_run("A model was built");
  Engine& engine = *engine_;
  const std::size_t before = engine.store.variables().size();
  const auto scope = this->scope();
  // A separate graph: what the pass collects is discarded, and names of layers start from the
  // first.
  variables::Graph graph(engine.store, {.placer = engine.placer});
  const auto opened = graph.as_default();
  engine.creation.begin_step(engine.models_created++);
  const device::RandomScope random(engine.creation);
  const at::NoGradGuard no_grad;
  std::optional<variables::OpenVariableScope> named;
  if (!name.empty()) named.emplace(graph, name, variables::VariableScopeOptions{});
  BuiltFunction built{.scope = variables::get_variable_scope(), .variables = {}};
  pass();
  const std::vector<variables::Variable> all = engine.store.variables();
  built.variables.assign(all.begin() + static_cast<std::ptrdiff_t>(before), all.end());
  check_argument(!built.variables.empty(),
                 "The model function created no variable: use layers, or get_variable.");
  engine.store.make_contiguous(built.variables);
  return built;
}

Optimizer Strategy::make_optimizer(std::span<const variables::Variable> variables,
                                   optim::UpdateRulePtr rule, const OptimizerOptions& options) {
  check_argument(rule != nullptr, "An optimizer's update rule is null.");
  check_outside_run("An optimizer was made");
  if (options.gradient_scaler && servers().replicas_to_aggregate > 0) {
    throw Error(ErrorCode::kUnimplemented, "OptimizerOptions::gradient_scaler with ", name(),
                " in synchronous steps: a worker that overflows would send no gradients, for which "
                "the others wait. Train in bf16, or with asynchronous updates.");
  }
  for (const variables::Variable& variable : variables) {
    check_argument(engine_->store.owns(variable), "Variable '", variable.name(),
                   "' does not belong to the strategy ", StrategyRef(*this).description(),
                   ": its optimizers take variables of models that it created, or that were made "
                   "in its scope().");
    const bool is_new =
        !variable.trainable() && variable.storage() && variable.component(0).requires_grad();
    check_state(
        !is_new, "Variable '", variable.name(),
        "' did not require a gradient when its model was created, so it would not be trained: call "
        "set_requires_grad(true) before that, in a factory for Strategy::create.");
  }
  check_agreement(workers(), optimizer_facts(*rule, variables, options, *this),
                  {.what = "optimizers", .advice = "make the same optimizer in every worker."});
  auto state = std::make_shared<optim::OptimizerState>(std::move(rule), variables, options.groups);
  auto synchronizer = engine_->make_synchronizer(state);
  Optimizer made(std::move(state), std::move(synchronizer), options, StrategyRef(*this),
                 engine_->make_subtree_sums());
  std::erase_if(engine_->optimizers, [](const auto& known) { return !known.lock(); });
  engine_->optimizers.emplace_back(made);
  return made;
}

void Strategy::wait_for_devices() const {
  engine_->check_idle("wait_for_devices");
  for (const auto& communicator : engine_->communicators) communicator->finish();
  // `run` has made these streams wait for those of the replicas.
  for (const c10::Device device : engine_->torch_devices) {
    if (!device.is_cpu()) device::synchronize(device::current_stream(device));
  }
}

void Strategy::measure_steps(StepMeasuring measuring) {
  engine_->check_idle("measure_steps");
  engine_->meter->measure(measuring);
}

std::vector<StepTimes> Strategy::step_times() const {
  engine_->check_idle("step_times");
  return engine_->meter->times();
}

void Strategy::reset_step_times() {
  engine_->check_idle("reset_step_times");
  engine_->meter->reset();
}

std::vector<std::shared_ptr<const CreatedModel>> Strategy::created_models() const {
  return engine_->living_models();
}
std::vector<Optimizer> Strategy::created_optimizers() const {
  std::vector<Optimizer> living;
  for (const Optimizer::Weak& each : engine_->optimizers) {
    if (auto optimizer = each.lock()) living.push_back(std::move(*optimizer));
  }
  return living;
}
std::shared_ptr<CreatedStates> Strategy::created_states() const {
  return engine_->states;
}

std::shared_ptr<StepMeter> Strategy::step_meter() const {
  return engine_->meter;
}
std::shared_ptr<const CopyStreams> Strategy::copy_streams() const {
  return engine_->copy_streams;
}
std::shared_ptr<EpochCounter> Strategy::epoch_counter(
    const std::shared_ptr<const void>& dataset, const data::PipelineDescription& pipeline) const {
  return engine_->epochs.of(dataset, pipeline);
}

}  // namespace brigade::distribute
