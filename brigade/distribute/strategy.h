#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/ambient.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/piggyback.h"
#include "brigade/concurrency/stage_timeline.h"
#include "brigade/device/device.h"
#include "brigade/device/numerics.h"
#include "brigade/device/precision.h"
#include "brigade/distribute/compiled_step.h"
#include "brigade/distribute/coordination.h"
#include "brigade/distribute/created_state.h"
#include "brigade/distribute/function_module.h"
#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/input/input_options.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/replicated.h"
#include "brigade/distribute/step_times.h"
#include "brigade/distribute/strategy_parts.h"
#include "brigade/distribute/update_staleness.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {

/// A std::shared_ptr to a module. A holder made by TORCH_MODULE is not one; it only converts to
/// one.
template <class T>
concept ModulePointer = std::is_convertible_v<T, std::shared_ptr<torch::nn::Module>> &&
    std::is_base_of_v<torch::nn::Module, typename T::element_type>;

class Strategy;

/// Options of `Strategy::create`.
struct CreateOptions {
  /// This and a dot precede the names of the variables of a module; the variables of a function of
  /// layers are in a variable scope with this name.
  std::string name = {};
};

/// The update rule of options such as `optim::Sgd{}`, and of `ps::SyncReplicasOptimizer`, which
/// first checks whether `strategy` trains as it says.
template <class Rule>
optim::UpdateRulePtr rule_for(const Strategy& strategy, const Rule& rule) {
  constexpr bool is_rule = requires {
    { rule.rule() } -> std::convertible_to<optim::UpdateRulePtr>;
  };
  static_assert(is_rule,
                "Strategy::optimizer takes the options of an update rule of Brigade, such as "
                "bg::optim::Adam{.learning_rate = 1e-3}. (An optimizer of torch::optim knows the "
                "parameters of one replica only.)");
  if constexpr (requires { rule.check(strategy); }) rule.check(strategy);
  if constexpr (is_rule) return rule.rule();
}

/// What `Strategy::create` takes as a function that makes a model.
template <class T>
concept ModelMaker = !std::is_base_of_v<torch::nn::Module, T> && !std::is_same_v<T, CreateOptions>;

/// Distributes the training of a model over devices: decides where variables live, on which devices
/// replicas run, and how gradients are reduced. The training program is the same for one device and
/// for many:
///
///   MirroredStrategy strategy;
///   auto model = strategy.create<models::MnistCnn>();
///   auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 1e-3});
///   const auto train_step = [&](const input::LabeledBatch& batch) {
///     adam.minimize(loss(model(batch.features), batch.labels));
///   };
///   for (const auto& batch : strategy.distribute(dataset)) strategy.run(train_step, batch);
///
/// Given the same global batches, any number of replicas computes what one replica computes on the
/// whole batch, up to the order of additions. On the same devices, every run of a program gives the
/// same bits, on GPUs with `Numerics::kReproducible`, the default. TensorFlow:
/// tf.distribute.Strategy.
///
/// Thread-safety: one thread at a time, outside of replicas. Models, optimizers and datasets made
/// by a strategy must not be used after it is destroyed, nor in a child process made by fork, which
/// has none of its threads.
class Strategy {
 public:
  virtual ~Strategy();
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  const std::string& name() const;
  /// The number of replicas of all workers.
  int num_replicas_in_sync() const;
  /// The number of logical replicas of all workers, if the options asked for one; otherwise 0.
  int logical_replicas() const;
  /// With logical replicas on CPUs, `device::arithmetic_fingerprint` of their threads: results are
  /// equal to the bit where it is equal. Otherwise empty.
  const std::string& arithmetic_fingerprint() const;
  /// The devices of this process, one for each of its replicas: logical replicas that compute on
  /// one device one after another each name it.
  const std::vector<device::Device>& devices() const;
  int num_local_replicas() const { return static_cast<int>(devices().size()); }
  /// The indices of this process's replicas among all replicas.
  ReplicaRange replica_range() const;

  /// The processes that train together by collectives; null if this is the only one, or if the
  /// workers share none (`StrategyParts::worker`).
  const WorkerGroup* workers() const;
  /// The workers among which all replicas are divided; null if this one runs all, as in a pipeline
  /// over workers, which compute stages of the same replicas. With several pipelines, the workers
  /// with the same stages as this one.
  const WorkerGroup* replica_workers() const;
  /// Of the job, with or without collectives.
  int num_workers() const;
  int worker_index() const;
  /// Whether several workers share collectives, so that all must make the same calls.
  bool has_worker_collectives() const;
  /// The parameter servers that keep the optimizers' variables; of most strategies: none.
  const ServerLayout& servers() const;
  /// The phases of a program whose chief trains nothing, but directs the other workers; null for
  /// strategies in which all train.
  Coordination* coordination() const;
  /// Whether this process is the chief, which writes checkpoints, summaries and the log.
  bool is_chief() const;
  /// Returns the chief's `value` in every worker. Use it for decisions that depend on clocks or
  /// signals, which workers would make differently. A collective of the workers, outside of `run`;
  /// with one worker, and without collectives, it returns `value`.
  std::int64_t broadcast_from_chief(std::int64_t value) const;
  std::string broadcast_from_chief(const std::string& value) const;
  /// Returns the maximum of the workers' values in every worker, with the same rules.
  std::int64_t all_reduce_max(std::int64_t value) const;
  /// For sessions, whose workers agree on stopping. Returns the maximum of the workers' requests in
  /// every worker, with the same rules; 0: none. If another worker is in a step meanwhile, all
  /// throw a comm::StepMismatch that names both.
  std::int64_t agree_on_stop(std::int64_t request) const;
  /// For sessions. From now on the calls that the workers make anyway, such as those for gradients,
  /// carry a number of each worker, so that all know it without a call for it
  /// (`comm::PiggybackNumber`). Every worker calls it between the same calls, outside of `run`; it
  /// replaces the number before of that use. Null, in every worker, if calls carry nothing: with
  /// one worker, without collectives, and in several pipelines over workers.
  [[nodiscard]] std::shared_ptr<comm::PiggybackNumber> piggyback(
      comm::PiggybackUse use, comm::PiggybackNumber::Own own) const;
  /// The number of updates of the job, if workers without collectives make them (parameter
  /// servers); unset otherwise, and before the first optimizer was made. Of several optimizers the
  /// oldest that counts decides. Outside of `run`.
  std::optional<std::int64_t> global_step() const;
  /// How stale the updates of this worker were since its optimizer was made, if other workers make
  /// updates at any time (parameter servers); unset otherwise. Throws kFailedPrecondition in `run`.
  std::optional<UpdateStaleness> staleness() const;
  /// The number that the next `store_state` stores. Does nothing in other strategies. Throws
  /// kInvalidArgument below 0.
  void set_global_step(std::int64_t step);
  /// Another worker reports that the job has reached this step: `global_step` is at least that from
  /// now on, without a call of the servers. Does nothing in other strategies. Outside of `run`.
  void follow_global_step(std::int64_t step);
  /// Copies variables and optimizers whose true state is elsewhere (on parameter servers) into this
  /// process, or, after they were restored here, back. In a worker that is not the chief
  /// `store_state` fetches what the chief has stored. In other strategies `fetch_state` only waits
  /// for collectives that GPUs still make, and throws what one has failed with: the variables are
  /// then worthless. Throw kFailedPrecondition in `run`.
  void fetch_state() const;
  void store_state();
  /// As long as the result and the averages exist, `fetch_state` also fetches the averages of
  /// variables that another worker trains: this worker does not see their current values (stages of
  /// a pipeline).
  [[nodiscard]] std::shared_ptr<const void> fetch_averages(
      const optim::ExponentialMovingAverage& averages);
  /// In the chief of workers that share no collectives: stores the state, and lets the others
  /// begin. A session calls it when it is ready; otherwise the first `run` does the same. Does
  /// nothing in other workers and other strategies. Throws kFailedPrecondition in `run`.
  void start_job();
  /// The device of the variables: the controller, or the first replica's device if every replica
  /// has its own copy. TensorFlow: StrategyExtended.parameter_devices.
  const device::Device& parameter_device() const;
  /// Places the operations of device scopes in this strategy, and keeps the placement log.
  device::Placer& placer() const;

  /// While a Scope exists, variables, models, metrics and optimizers that the free functions
  /// (`variables::make_variable`, `get_variable`, `create`, `optimizer`) make on this thread belong
  /// to this strategy. Scopes of one strategy may be nested; opening the scope of another strategy
  /// inside throws kFailedPrecondition naming both. TensorFlow: Strategy.scope.
  class Scope {
   public:
    explicit Scope(Strategy& strategy);

   private:
    base::AmbientScope<Strategy> strategy_;
    base::AmbientScope<variables::VariableStore> store_;
    base::AmbientScope<variables::Graph> graph_;
  };
  Scope scope() { return Scope(*this); }

  /// Creates a model of type `Module`: a Replicated<Module> with one module per replica,
  /// constructed with `arguments`. All replicas start with replica 0's values, drawn from the
  /// strategy's seed. Throws kAlreadyExists if a living model has variables of the same names; give
  /// it a name then: `create<Net>({.name = "second"}, arguments...)`.
  template <class Module, class... Arguments>
  auto create(const Arguments&... arguments) {
    return create<Module>(CreateOptions(), arguments...);
  }
  template <class Module, class... Arguments>
  auto create(const CreateOptions& options, const Arguments&... arguments) {
    constexpr bool is_module = std::is_base_of_v<torch::nn::Module, Module>;
    static_assert(
        is_module,
        "Strategy::create makes a model of a type that is derived from torch::nn::Module: "
        "for a holder that TORCH_MODULE(Network) makes, write create<NetworkImpl>().");
    if constexpr (is_module)
      return create_modules(options.name, [&] { return std::make_shared<Module>(arguments...); });
  }

  /// Creates a model from a function. Without `examples`, each call of `function()` returns a
  /// std::shared_ptr to a new module.
  ///
  /// With them, the model is a function of layers (Slim style). `function(examples...)` is called
  /// once, here, on the first replica's device, to create the variables; its result, losses and
  /// updates are discarded. In replicas, `model(inputs...)` calls the function again with these
  /// variables. A function whose last parameter is a `variables::Mode` is passed whether the model
  /// is training. `examples` must have the shapes of the inputs, except for the number of examples,
  /// and be on the first replica's device. Initial values depend only on the seed and the
  /// variables' names. Throws what the function throws, and kInvalidArgument if it creates no
  /// variable.
  template <ModelMaker Function, class... Examples>
  auto create(Function function, const Examples&... examples) {
    return create(CreateOptions(), std::move(function), examples...);
  }
  template <ModelMaker Function, class... Examples>
  auto create(const CreateOptions& options, Function function, const Examples&... examples) {
    if constexpr (sizeof...(Examples) > 0) {
      return create_function_model(options.name, std::move(function), examples...);
    } else {
      constexpr bool makes_modules = requires {
        requires ModulePointer<std::invoke_result_t<Function&>>;
      };
      static_assert(makes_modules,
                    "The function given to Strategy::create must return a std::shared_ptr to a new "
                    "module (for a holder that TORCH_MODULE makes, return network.ptr()), or be "
                    "followed by example inputs.");
      if constexpr (makes_modules) return create_modules(options.name, function);
    }
  }

  /// Makes an optimizer of the trainable variables of `model` (anything with `variables()`). `rule`
  /// is the options of an update rule, such as `optim::Adam{.learning_rate = 1e-3}`. An optimizer
  /// has state (momentum, step count), so make it once, before the first step. Throws
  /// kInvalidArgument for values that the rule does not allow and for a variable of another
  /// strategy; kFailedPrecondition inside of `run`, and for a variable whose `requires_grad` was
  /// changed after it was created.
  template <class Model, class Rule>
  Optimizer optimizer(const Model& model, const Rule& rule, const OptimizerOptions& options = {}) {
    constexpr bool has_variables = requires {
      model.variables();
    };
    static_assert(has_variables,
                  "Strategy::optimizer takes a model that Strategy::create has made, not its "
                  "parameters.");
    if constexpr (has_variables)
      return make_optimizer(model.variables(), rule_for(*this, rule), options);
  }
  Optimizer make_optimizer(std::span<const variables::Variable> variables,
                           optim::UpdateRulePtr rule, const OptimizerOptions& options = {});

  /// Calls `function(arguments...)` once in each replica, concurrently, and returns the results as
  /// a PerReplica (void for void). A function that needs its replica's id or collectives takes a
  /// ReplicaContext& before the arguments. Of a PerReplica argument each replica gets its own
  /// value; every other argument is passed to all replicas unchanged. All replicas call the same
  /// function object. Grad mode, autocast and the ambient context are the caller's. TensorFlow:
  /// Strategy.run.
  ///
  /// Throws kFailedPrecondition, naming the cause, before any replica runs if a model is in
  /// training mode in one replica and in evaluation mode in another; and after the function if it
  /// changed a parameter other than by an optimizer of this strategy, or left a gradient in a
  /// parameter's `.grad` (torch::optim, or a direct backward()).
  ///
  /// If a replica throws, the other replicas are released and the first error is thrown, naming the
  /// replica. An exception that is not an Error is nested in an Error with code kAborted.
  ///
  /// With several workers, a step that fails in one worker is abandoned by all. Workers that wait
  /// for its gradients throw a comm::StepAbandoned with the failed worker and the reason, as soon
  /// as that worker makes its next exchange or ends. No worker applies any gradient of the step,
  /// and all may continue with the next step. If workers are in different steps for another reason,
  /// they throw a comm::StepMismatch that names both; resume from a checkpoint then.
  template <class Function, class... Arguments>
  auto run(Function&& function, const Arguments&... arguments);

  /// A step that is called as `compiled(arguments...)`, with the results of `run(function,
  /// arguments...)`; on one GPU the kernels of all replicas are captured once as a CUDA graph and
  /// replayed afterwards. See CompiledStep: what may not happen inside, and how it says why it runs
  /// eagerly. TensorFlow: tf.function.
  template <class Function>
  CompiledStep<std::decay_t<Function>> compile(Function&& function,
                                               const CompiledStepOptions& options = {}) {
    return CompiledStep<std::decay_t<Function>>(*this, std::forward<Function>(function), options);
  }

  /// The precision of `run` from now on; at first kFull, which leaves the caller's autocast as it
  /// is. In others, matrix products and convolutions of float32 tensors in the function are
  /// computed in bfloat16 or float16 on every device (`device::AutocastScope`); backward follows,
  /// and updates are in full precision. Variables, gradients and checkpoints are float32 all the
  /// same. Layers return what they computed in low precision: losses, and models of `train::Model`,
  /// go back to float32. Use the same in every worker; optimizers that are made afterwards check
  /// it. Not saved in checkpoints. Throws kFailedPrecondition in `run`. Keras:
  /// mixed_precision.set_global_policy.
  void set_precision(device::Precision precision);
  device::Precision precision() const;

  /// How GPUs compute in `run` from now on; at first kReproducible. Of no effect on CPUs. The
  /// settings are the process's (`device::use_numerics`). Use the same in every worker; optimizers
  /// that are made afterwards check it. Checkpoints keep it, and a restore with another one says
  /// that results will differ. Throws kFailedPrecondition in `run`.
  void set_numerics(device::Numerics numerics);
  device::Numerics numerics() const;

  /// Reduces `value` over the replicas: elementwise sum, mean, maximum or minimum. Replicas without
  /// examples are left out. Throws kInvalidArgument if shapes differ. The result is on the first
  /// replica's device. With several workers a reduction is over the replicas of all workers, and a
  /// collective of the workers. TensorFlow: Strategy.reduce.
  at::Tensor reduce(comm::ReduceOp op, const PerReplica<at::Tensor>& value) const;
  /// Reduces over the replicas and over `axis`. The mean is therefore over all elements, even if
  /// the replicas' sizes differ. The mean of integers is float64. `op` must be kSum or kMean.
  at::Tensor reduce(comm::ReduceOp op, const PerReplica<at::Tensor>& value,
                    std::int64_t axis) const;
  /// The mean over all examples, from each replica's mean over its own examples: means are weighted
  /// by the replicas' numbers of examples. It is what one replica would have returned for the whole
  /// batch. Throws kFailedPrecondition if the numbers of examples are not known.
  at::Tensor reduce_mean_over_examples(const PerReplica<at::Tensor>& means) const;
  template <class T>
  at::Tensor reduce_mean_over_examples(const PerReplica<T>&) const {
    static_assert(!std::is_same_v<T, StepLoss>,
                  "What Optimizer::minimize returned is reduced by Strategy::reduce_loss.");
    static_assert(std::is_same_v<T, StepLoss>,
                  "Strategy::reduce_mean_over_examples takes one tensor per replica: return the "
                  "loss, a tensor, from the step function.");
    return {};
  }
  /// The loss of a step, from what `Optimizer::minimize` or `apply_gradients` returned in each
  /// replica: what one replica would have returned for the whole batch, that is the mean over all
  /// examples; of a loss declared as LossScale::kSum or kAlreadyScaled the sum over the replicas.
  /// On the first replica's device. Among workers it came with the gradients and needs no call,
  /// except in steps without an update (micro-batches, overflows), with a narrow
  /// `CommunicationOptions::wire`, in pipelines, and if its dtype is not that of the variables.
  /// Throws kFailedPrecondition if no replica had examples or their numbers are not known.
  at::Tensor reduce_loss(const PerReplica<StepLoss>& losses) const;
  /// For a value that is not distributed: returns `value`. Throws kInvalidArgument for kSum on
  /// several replicas, as in TensorFlow.
  at::Tensor reduce(comm::ReduceOp op, const at::Tensor& value) const;
  /// Concatenates the workers' `values`, in worker order: from [this process's replicas, ...] to
  /// [all replicas, ...].
  at::Tensor gather_workers(const at::Tensor& values) const;

  /// Concatenates the replicas' values along `axis`; other sizes must be equal. Throws
  /// kInvalidArgument for scalars. TensorFlow: Strategy.gather.
  at::Tensor gather(const PerReplica<at::Tensor>& value, std::int64_t axis) const;

  /// This process's values, in replica order. TensorFlow: experimental_local_results.
  template <class T>
  const std::vector<T>& local_results(const PerReplica<T>& value) const {
    return value.values();
  }

  /// Distributes a dataset of global batches: returns a `DistributedDataset` whose batches are
  /// split among the replicas of all workers. Every worker must pass the same dataset;
  /// `options.auto_shard` says how the workers divide it. Workers without collectives get whole
  /// global batches, each for its own replicas. Each iteration over the same dataset is
  /// the next epoch, whether `distribute` is called once before the loop over epochs or inside it.
  /// TensorFlow: Strategy.experimental_distribute_dataset.
  template <class B>
  auto distribute(const data::Dataset<B>& dataset, const InputOptions& options = {}) const {
    static_assert(
        input::Splittable<B>,
        "Strategy::distribute cannot split batches of this type: name its fields in it, "
        "`static constexpr auto fields = std::tuple{&Batch::pixels, &Batch::labels};`, or use "
        "tensors, lists, or tuples and pairs of these.");
    if constexpr (input::Splittable<B>)
      return DistributedDataset<B>(dataset, torch_devices(), seed(), BatchKind::kGlobal,
                                   step_meter(), worker_layout(), options,
                                   epoch_counter(dataset.node(), dataset.node()->pipeline()),
                                   created_states(), copy_streams());
  }
  /// Distributes the datasets that `make(InputContext)` returns. `make` is called once in every
  /// worker, or once for every replica (`InputOptions::replication`). The datasets' elements are
  /// per-replica batches; with one dataset per worker, its replicas take them in rotation. Datasets
  /// may have different lengths: replicas without data get empty batches until all datasets end.
  /// Workers without collectives end each with its own data, and a shuffle without a seed differs
  /// between them: shard before you shuffle.
  /// TensorFlow: Strategy.distribute_datasets_from_function.
  template <class Make>
  auto distribute_from_function(Make make, const InputOptions& options = {}) const {
    using Made = std::remove_cvref_t<std::invoke_result_t<Make&, const InputContext&>>;
    std::vector<Made> datasets;
    for (const InputContext& context : input_contexts(options)) datasets.push_back(make(context));
    auto epochs = epoch_counter(datasets.front().node(), datasets.front().node()->pipeline());
    return DistributedDataset<typename Made::Element>(
        std::move(datasets), torch_devices(), seed(), BatchKind::kPerReplica, step_meter(),
        worker_layout(), options, std::move(epochs), created_states(), copy_streams());
  }
  /// Splits one global batch, which every worker must have, among the replicas of all workers.
  /// Returns the per-replica batches of this process, on the replicas' devices.
  template <class B>
  PerReplica<B> split_batch(const B& batch) const {
    return split_for_replicas(batch, replica_range(), torch_devices());
  }

  /// What each stage of the model computed in the last run, and when; unset for strategies without
  /// stages. Outside of `run`.
  virtual std::optional<concurrency::StageTimeline> stage_timeline() const { return std::nullopt; }

  /// What was created in this strategy and still exists, in the order of its creation: a training
  /// session saves it (`train::TrainingState::add_created`). `created_states` are those of
  /// iterators over distributed datasets and of metrics.
  std::vector<std::shared_ptr<const CreatedModel>> created_models() const;
  std::vector<Optimizer> created_optimizers() const;

  /// What `compile` captures steps with.
  const device::GraphFactory& graph_factory() const;
  std::shared_ptr<CreatedStates> created_states() const;

  std::uint64_t seed() const;
  /// The number of runs so far, including failed ones. It is the step number of the next `run`,
  /// whose random numbers depend only on the seed and this number. Equal in all workers: a run that
  /// fails in one worker counts in all, and so does a step whose input one worker could not read.
  std::uint64_t step() const;
  /// For resuming: the next `run` is run number `step`, and draws its random numbers.
  void set_step(std::uint64_t step);

  /// Starts or stops measuring the step breakdown, from the next step on. Initially off, at no
  /// cost; while on, each phase entered costs two reads of the clock. Outside of `run`.
  void measure_steps(StepMeasuring measuring);
  /// Waits until the replicas' GPUs have completed what `run` has queued, as at both ends of a
  /// measurement. Throws what a collective has failed with after it was queued. On CPUs, where
  /// `run` returns when everything is done, it does nothing. Outside of `run`.
  void wait_for_devices() const;
  /// The time that each replica spent in each phase, summed over the steps measured since the last
  /// `reset_step_times`, without failed steps. Outside of `run`.
  std::vector<StepTimes> step_times() const;
  void reset_step_times();

 protected:
  /// Throws kInvalidArgument if there is no device.
  explicit Strategy(StrategyParts parts);

 private:
  struct Engine;
  struct BuiltFunction {
    variables::VariableScope scope;
    std::vector<variables::Variable> variables;
  };
  template <class Make>
  auto create_modules(const std::string& name, Make&& make) {
    using Module = typename std::invoke_result_t<Make&>::element_type;
    std::vector<std::shared_ptr<Module>> modules;
    build_replicas([&] { modules.push_back(make()); });
    std::vector<std::shared_ptr<torch::nn::Module>> plain(modules.begin(), modules.end());
    auto created = register_model(adopt(plain, name), module_modes(plain));
    return Replicated<Module>(std::move(modules), std::move(created));
  }
  template <class Function, class... Examples>
  auto create_function_model(const std::string& name, Function function,
                             const Examples&... examples) {
    using Module = FunctionModule<Function>;
    BuiltFunction built = build_variables(
        name, [&] { Module::call_function(function, variables::Mode::kTraining, examples...); });
    std::vector<std::shared_ptr<Module>> modules;
    ModuleMode mode;
    for (int replica = 0; replica < num_local_replicas(); ++replica) {
      modules.push_back(std::make_shared<Module>(function, built.scope, variable_store()));
      mode.is_training.emplace_back([module = modules.back()] { return module->is_training(); });
    }
    auto created = register_model(std::move(built.variables), {std::move(mode)});
    return Replicated<Module>(std::move(modules), std::move(created));
  }
  BuiltFunction build_variables(const std::string& name, const std::function<void()>& pass);
  variables::VariableStore& variable_store() const;
  void build_replicas(const std::function<void()>& build_one);
  std::shared_ptr<const CreatedModel> register_model(std::vector<variables::Variable> variables,
                                                     std::vector<ModuleMode> modes);
  void check_outside_run(std::string_view made) const;
  void check_not_running(std::string_view call) const;
  std::vector<variables::Variable> adopt(
      std::span<const std::shared_ptr<torch::nn::Module>> modules, const std::string& name);
  void log_placement(const torch::nn::Module& model,
                     std::span<const variables::Variable> adopted) const;
  template <class Function, class... Arguments>
  auto run_each(Function& function, const Arguments&... arguments);
  /// A step function with its arguments, for a thread that runs it in a replica.
  using ReplicaBody = std::function<void(ReplicaContext&)>;
  /// The same with the arguments of any replica of all workers, for audits; its result is dropped.
  using BodyOfAny = std::function<ReplicaBody(int replica)>;
  bool audits_gradients() const;
  void run_replicas(const std::optional<ExampleCounts>& examples, const ReplicaBody& body,
                    const BodyOfAny& body_of_any);
  std::vector<c10::Device> torch_devices() const;
  std::shared_ptr<StepMeter> step_meter() const;
  std::shared_ptr<const CopyStreams> copy_streams() const;
  std::shared_ptr<EpochCounter> epoch_counter(const std::shared_ptr<const void>& dataset,
                                              const data::PipelineDescription& pipeline) const;
  WorkerLayout worker_layout() const;
  std::vector<InputContext> input_contexts(const InputOptions& options) const;
  at::Tensor sum_over_replicas(std::vector<at::Tensor> values, const at::Tensor& like) const;
  at::Tensor extreme_of(comm::ReduceOp op, const std::vector<at::Tensor>& parts,
                        const at::Tensor& like) const;

  std::unique_ptr<Engine> engine_;
};

inline constexpr base::AmbientSlot<Strategy> kStrategySlot{base::AmbientIndex::kStrategy};

/// The strategy whose scope is open on this thread; null if there is none (TensorFlow:
/// has_strategy, get_strategy).
Strategy* current_strategy();

/// The strategy whose scope is open on this thread. Throws kFailedPrecondition, naming `what`, if
/// there is none.
Strategy& require_strategy(std::string_view what);

/// Calls `Strategy::create` or `Strategy::optimizer` of the strategy whose scope is open.
template <class Module, class... Arguments>
auto create(const Arguments&... arguments) {
  return require_strategy("create").create<Module>(arguments...);
}
template <class Model, class Rule>
Optimizer optimizer(const Model& model, const Rule& rule, const OptimizerOptions& options = {}) {
  return require_strategy("optimizer").optimizer(model, rule, options);
}

namespace internal {

/// The argument of any replica of all workers.
template <class T>
const T& component_of_any(const T& value, int) {
  return value;
}
template <class T>
T component_of_any(const PerReplica<T>& value, int replica) {
  return value.of_any()(replica);
}
template <class T>
bool is_known_of_any(const T& value) {
  if constexpr (IsPerReplica<T>::value) return static_cast<bool>(value.of_any());
  return true;
}

}  // namespace internal

template <class Function, class... Arguments>
auto Strategy::run(Function&& function, const Arguments&... arguments) {
  constexpr bool takes_context =
      std::is_invocable_v<Function&, ReplicaContext&, const internal::Component<Arguments>&...>;
  constexpr bool takes_arguments =
      std::is_invocable_v<Function&, const internal::Component<Arguments>&...>;
  static_assert(
      takes_context || takes_arguments,
      "The function given to Strategy::run does not take the arguments of run: it must take each "
      "argument by value or const reference, after a ReplicaContext& if it asks for one. For a "
      "distributed batch it must take a per-replica batch, which has the type of the dataset's "
      "batches.");
  if constexpr (takes_context) {
    return run_each(function, arguments...);
  } else if constexpr (takes_arguments) {
    const auto with_context = [&](ReplicaContext&,
                                  const internal::Component<Arguments>&... own) -> decltype(auto) {
      return function(own...);
    };
    return run_each(with_context, arguments...);
  }
}

template <class Function, class... Arguments>
auto Strategy::run_each(Function& function, const Arguments&... arguments) {
  using Result =
      std::invoke_result_t<Function&, ReplicaContext&, const internal::Component<Arguments>&...>;
  const std::optional<ExampleCounts> examples = internal::first_examples(arguments...);
  const auto call = [&](ReplicaContext& context) -> Result {
    return function(context, internal::component(arguments, context.local_id)...);
  };
  BodyOfAny call_of_any;
  if (audits_gradients() && (internal::is_known_of_any(arguments) && ...)) {
    call_of_any = [&]([[maybe_unused]] int replica) -> ReplicaBody {
      // References to arguments that are equal in all replicas, and values made for this one.
      using Own = std::tuple<decltype(internal::component_of_any(arguments, 0))...>;
      auto own = std::make_shared<const Own>(internal::component_of_any(arguments, replica)...);
      return [&function, own = std::move(own)](ReplicaContext& context) {
        std::apply([&](const auto&... each) { static_cast<void>(function(context, each...)); },
                   *own);
      };
    };
  }
  if constexpr (std::is_void_v<Result>) {
    run_replicas(examples, call, call_of_any);
  } else {
    std::vector<std::optional<Result>> slots(static_cast<std::size_t>(num_local_replicas()));
    const auto keep = [&](ReplicaContext& context) {
      slots[static_cast<std::size_t>(context.local_id)].emplace(call(context));
    };
    run_replicas(examples, keep, call_of_any);
    std::vector<Result> results;
    for (auto& slot : slots) results.push_back(std::move(*slot));
    return PerReplica<Result>(std::move(results), examples);
  }
}

}  // namespace brigade::distribute
