#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/ambient.h"
#include "brigade/comm/communicator.h"
#include "brigade/comm/cross_device_ops.h"
#include "brigade/device/device.h"
#include "brigade/device/placement.h"
#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/function_module.h"
#include "brigade/distribute/input/input_context.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/per_replica.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/replicated.h"
#include "brigade/distribute/step_meter.h"
#include "brigade/distribute/input/workers.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {

/// The four choices that make a strategy: who runs, where variables live, how gradients meet, who
/// updates.
struct StrategyParts {
  std::string name;
  /// Who runs: one replica on each.
  std::vector<device::Device> devices;
  /// Where trainable variables live.
  variables::StorageSharing sharing = variables::StorageSharing::kOneCopyEach;
  /// The device of the trainable variables' only home. StorageSharing::kController needs it; without one,
  /// each replica's variables lie on its own device.
  std::optional<device::Device> controller = std::nullopt;
  /// Which replicas read a copy of the controller's variables.
  variables::Caching caching = variables::Caching::kWhereNeeded;
  /// How gradients meet and who updates.
  enum class Update {
    kSharded,     ///< each replica reduces and updates 1/R of shared memory
    kReplicas,   ///< gradients are all-reduced and every replica updates its own copy
    kController  ///< gradients travel to the controller, where the only home is updated
  } update = Update::kReplicas;
  /// How gradients are added up. Unset: by the quickest way that the update has.
  std::shared_ptr<const comm::CrossDeviceOps> cross_device_ops = nullptr;
  /// The root of all randomness: initial weights, dropout, shuffles without a seed of their own.
  std::uint64_t seed = 0;
  /// What happens where a device scope names a device that does not exist, and the placement log.
  device::PlacementOptions placement = {};
  /// A collective that a replica does not reach within this time fails and names it.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long waiting replicas poll; 0 where replicas exceed cores.
  std::chrono::microseconds spin{200};
  /// The processes that train together, this one among them; null: it is alone.
  std::shared_ptr<const Workers> workers = nullptr;
};

/// A std::shared_ptr to a module; not a holder made by TORCH_MODULE, which only converts to one.
template <class T>
concept ModulePointer = std::is_convertible_v<T, std::shared_ptr<torch::nn::Module>> &&
    std::is_base_of_v<torch::nn::Module, typename T::element_type>;

/// Decides where a model's variables live, on which devices its replicas run, and how they agree,
/// so that the program that trains it need not know. The program is the same for one device and for
/// many:
///
///   MirroredStrategy strategy;
///   auto model = strategy.create<models::MnistCnn>();
///   auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 1e-3});
///   for (const auto& batch : strategy.distribute(dataset)) {
///     strategy.run([&](ReplicaContext&, const input::LabeledBatch& b) {
///     adam.minimize(loss(model(b.features), b.labels)); },
///                  batch);
///   }
///
/// With the same global batches, any number of replicas computes what one computes on the whole
/// batch, up to the order of additions. The same program gives the same bits in every run on the
/// same devices.
///
/// Thread-safety: one thread at a time, outside of replicas. Models, optimizers and datasets made
/// here must not be used after the strategy is gone.
class Strategy {
 public:
  virtual ~Strategy();
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;

  const std::string& name() const;
  /// Over all workers.
  int num_replicas_in_sync() const;
  /// Of this process, one each.
  const std::vector<device::Device>& devices() const;
  int num_local_replicas() const { return static_cast<int>(devices().size()); }
  /// Where they stand among all replicas.
  ReplicaRange replica_range() const;

  /// The processes that train together; null where this one is alone.
  const Workers* workers() const;
  int num_workers() const;
  int worker_index() const;
  /// Whether this process is the one that writes checkpoints, summaries and the log (TensorFlow:
  /// the chief).
  bool is_chief() const { return worker_index() == 0; }
  /// The chief's value, in every worker: for decisions that clocks and signals would let them make
  /// differently. A collective of the workers, outside of `run`; with one worker it is the value.
  std::int64_t broadcast_from_chief(std::int64_t value) const;
  std::string broadcast_from_chief(const std::string& value) const;
  /// The largest of the workers' values, likewise.
  std::int64_t all_reduce_max(std::int64_t value) const;
  /// Where the variables' home is: the controller, or the first replica's device where every
  /// replica has its own. TensorFlow: StrategyExtended.parameter_devices.
  const device::Device& parameter_device() const;
  /// What device scopes ask in this strategy, and the placement log.
  device::Placer& placer() const;

  /// While it lives, variables, models, metrics and optimizers made on this thread by the free
  /// functions (`variables::make_variable`, `get_variable`, `create`, `optimizer`) are this
  /// strategy's. The same strategy's scope may nest; opening another's inside throws
  /// kFailedPrecondition naming both.
  class Scope {
   public:
    explicit Scope(Strategy& strategy);

   private:
    base::AmbientScope<Strategy> strategy_;
    base::AmbientScope<variables::VariableStore> store_;
    base::AmbientScope<variables::Graph> graph_;
  };
  Scope scope() { return Scope(*this); }

  /// A model of type `Module`, built once a replica with `arguments`: a Replicated<Module>. All
  /// begin with replica 0's values, drawn from the strategy's seed. Throws kAlreadyExists if a
  /// living model has variables of the same names: use `create_named`.
  template <class Module, class... Arguments>
  auto create(const Arguments&... arguments) {
    return create_named<Module>("", arguments...);
  }
  /// The same, with `name.` before the names of its variables.
  template <class Module, class... Arguments>
  auto create_named(const std::string& name, const Arguments&... arguments) {
    constexpr bool is_module = std::is_base_of_v<torch::nn::Module, Module>;
    static_assert(
        is_module,
        "Strategy::create makes a model of a type that is derived from torch::nn::Module: "
        "of a holder that TORCH_MODULE(Network) makes, write create<NetworkImpl>().");
    if constexpr (is_module)
      return create_from([&] { return std::make_shared<Module>(arguments...); }, name);
  }
  /// The same, from a function that returns a new `std::shared_ptr` to the module at each call.
  template <class Factory>
  auto create_from(Factory factory, const std::string& name = "") {
    using Made = std::invoke_result_t<Factory&>;
    static_assert(ModulePointer<Made>,
                  "The function given to Strategy::create_from must return a std::shared_ptr to a "
                  "new module: of a holder that TORCH_MODULE makes, return network.ptr().");
    if constexpr (ModulePointer<Made>) {
      using Module = typename Made::element_type;
      std::vector<std::shared_ptr<Module>> modules;
      build_replicas([&] { modules.push_back(factory()); });
      std::vector<std::shared_ptr<torch::nn::Module>> plain(modules.begin(), modules.end());
      auto created = keep(adopt(plain, name), parts_of(plain));
      return Replicated<Module>(std::move(modules), std::move(created));
    }
  }

  /// A model that is written as a function of layers (Slim style). `function(examples...)` is
  /// called once, here, on the first replica's component, to make the variables; what it returns,
  /// its losses and its updates are dropped. In replicas `model(inputs...)` calls it again and
  /// finds them. A function that takes a `variables::Mode` behind its inputs is told whether it
  /// trains. The examples must have the inputs' shape but for the number of examples, and lie on
  /// the first replica's device. Variables depend on the seed and their names alone. Throws what
  /// the function throws, and kInvalidArgument if it makes no variable.
  template <class Function, class... Examples>
  Replicated<FunctionModule<Function>> build(Function function, const Examples&... examples) {
    return build_named("", std::move(function), examples...);
  }
  /// The same, in a variable scope called `name`.
  template <class Function, class... Examples>
  Replicated<FunctionModule<Function>> build_named(const std::string& name, Function function,
                                                   const Examples&... examples) {
    using Module = FunctionModule<Function>;
    BuiltFunction built = build_variables(
        name, [&] { Module::call_function(function, variables::Mode::kTraining, examples...); });
    std::vector<std::shared_ptr<Module>> modules;
    ModuleMode whole;
    for (int replica = 0; replica < num_local_replicas(); ++replica) {
      modules.push_back(std::make_shared<Module>(function, built.scope, variable_store()));
      whole.is_training.emplace_back([module = modules.back()] { return module->is_training(); });
    }
    auto created = keep(std::move(built.variables), {std::move(whole)});
    return Replicated<Module>(std::move(modules), std::move(created));
  }

  /// An optimizer of the trainable variables of `model` (anything with `variables()`), by an update
  /// rule's options such as `optim::Adam{.learning_rate = 1e-3}`. It remembers (momentum, steps),
  /// so it is made once, before the steps. Throws kInvalidArgument for values that the rule does
  /// not allow and for a variable of another strategy; kFailedPrecondition inside of `run`, and for
  /// a variable whose `requires_grad` was changed after it was created.
  template <class Model, class Rule>
  Optimizer optimizer(const Model& model, const Rule& rule, const OptimizerOptions& options = {}) {
    return make_optimizer(model.variables(), rule.rule(), options);
  }
  Optimizer make_optimizer(std::span<const variables::Variable> variables,
                           optim::UpdateRulePtr rule, const OptimizerOptions& options = {});

  /// Calls `function(ReplicaContext&, arguments...)` once for each replica, at the same time, and
  /// returns their results as a PerReplica (nothing for void). A PerReplica argument is handed out
  /// replica by replica; others go to each as they are. The same function object is called by all
  /// replicas at once. Grad mode, autocast and the ambient context are the caller's.
  ///
  /// Throws kFailedPrecondition, naming what and where, before any replica runs if one replica's
  /// model is in training mode and another's in evaluation mode, and behind the function if it
  /// changed a parameter other than by an optimizer of this strategy, or left a gradient in its
  /// `.grad` (torch::optim, backward() by hand). If a replica throws, the others are released and
  /// the first error is thrown, naming the replica (other exceptions than Error are nested in one
  /// with code kAborted). TensorFlow: Strategy.run.
  ///
  /// With several workers a step that fails in one of them is abandoned by all: those that still
  /// wait for its gradients get a comm::StepAbandoned that names who failed and why, as soon as
  /// that worker makes its next exchange or ends. Nothing of it is applied anywhere, and all may go
  /// on with the next step. Workers that come to be in different steps otherwise get a
  /// comm::StepMismatch that names both; they go on from a checkpoint.
  template <class Function, class... Arguments>
  auto run(Function&& function, const Arguments&... arguments);

  /// One value of all replicas', without an axis: the sum, mean, maximum or minimum over the
  /// replicas, leaving out those that had no examples. Shapes must be equal (kInvalidArgument).
  /// Lies on the first replica's device. With several workers every reduction is over all of them,
  /// and a collective of theirs.
  at::Tensor reduce(comm::ReduceOp op, const PerReplica<at::Tensor>& value) const;
  /// With an axis: over that axis too, so the mean is that of all elements, however uneven the
  /// replicas' sizes are. The mean of integers is float64. kSum and kMean only.
  at::Tensor reduce(comm::ReduceOp op, const PerReplica<at::Tensor>& value,
                    std::int64_t axis) const;
  /// The mean over all examples of means over the replicas' own examples: each weighted by its
  /// count. What one replica would have returned for the whole batch. Throws kFailedPrecondition if
  /// the counts are not known.
  at::Tensor reduce_mean_over_examples(const PerReplica<at::Tensor>& means) const;
  /// A value that is not distributed: its mean is itself, its sum has no meaning on several
  /// replicas (kInvalidArgument, as in TensorFlow).
  at::Tensor reduce(comm::ReduceOp op, const at::Tensor& value) const;
  /// Every worker's `values` behind one another, in the order of workers: [all replicas, ...] of
  /// [this process's replicas, ...].
  at::Tensor gather_workers(const at::Tensor& values) const;

  /// The replicas' values behind one another along `axis`; sizes may differ there only. Throws
  /// kInvalidArgument for scalars.
  at::Tensor gather(const PerReplica<at::Tensor>& value, std::int64_t axis) const;

  /// This process's values, in replica order. TensorFlow: experimental_local_results.
  template <class T>
  const std::vector<T>& local_results(const PerReplica<T>& value) const {
    return value.values();
  }

  /// The dataset, whose elements are global batches, cut for the replicas of all workers: a
  /// DistributedDataset<B>. Every worker must give the same dataset; `options` say how they share
  /// it out. Each iteration of the same dataset is its next epoch, however often it is distributed:
  /// inside the loop over epochs, or once before it.
  template <class B>
  auto distribute(const data::Dataset<B>& dataset, const InputOptions& options = {}) const {
    static_assert(
        input::Splittable<B>,
        "Strategy::distribute cannot cut batches of this type for its replicas: give it a "
        "brigade::data::Structure whose Batch is the type itself, or use tensors, lists, "
        "or tuples and pairs of these.");
    if constexpr (input::Splittable<B>)
      return DistributedDataset<B>(dataset, torch_devices(), seed(), BatchKind::kGlobal,
                                   step_meter(), worker_layout(), options,
                                   epoch_counter(dataset.node(), dataset.node()->pipeline()));
  }
  /// The dataset that `make` returns, called once in every worker, or for every replica
  /// (`InputOptions::replication`), with its place. Its elements are one replica's batch each; a
  /// worker's replicas take them in turn. Pipelines may have different numbers of them: who has
  /// none left gets empty batches until all are done. TensorFlow:
  /// distribute_datasets_from_function.
  template <class Make>
  auto distribute_from_function(Make make, const InputOptions& options = {}) const {
    using Made = std::remove_cvref_t<std::invoke_result_t<Make&, const InputContext&>>;
    std::vector<Made> datasets;
    for (const InputContext& context : input_contexts(options)) datasets.push_back(make(context));
    auto epochs = epoch_counter(datasets.front().node(), datasets.front().node()->pipeline());
    return DistributedDataset<typename Made::Element>(std::move(datasets), torch_devices(), seed(),
                                                      BatchKind::kPerReplica, step_meter(),
                                                      worker_layout(), options, std::move(epochs));
  }
  /// This process's shares of one global batch that every worker has, on its replicas' devices.
  template <class B>
  PerReplica<B> split_batch(const B& batch) const {
    return split_for_replicas(batch, replica_range(), torch_devices());
  }

  std::uint64_t seed() const;
  /// Runs made so far, failed ones included: the step that the next `run` has, and with the seed
  /// all that its random numbers depend on. Equal in all workers: where a run fails in one of them,
  /// it counts in all, and so does a step for which one of them could not read its input.
  std::uint64_t step() const;
  /// For resuming: the next `run` draws what it would have drawn as run number `step`.
  void set_step(std::uint64_t step);

  /// Measures from the next step on what steps spend their time on, or ends that. Off at first, and
  /// then it costs nothing; on, two reads of the clock
  /// for each phase entered. Outside of `run`.
  void measure_steps(StepMeasuring measuring);
  /// On what each replica spent the steps that were measured since the last `reset_step_times`;
  /// steps that failed are left out. Outside of `run`.
  std::vector<StepTimes> step_times() const;
  void reset_step_times();

 protected:
  explicit Strategy(StrategyParts parts);

 private:
  struct Engine;
  class RunScope;
  struct BuiltFunction {
    variables::VariableScope scope;
    std::vector<variables::Variable> variables;
  };
  BuiltFunction build_variables(const std::string& name, const std::function<void()>& pass);
  variables::VariableStore& variable_store() const;
  void build_replicas(const std::function<void()>& build_one);
  std::shared_ptr<const CreatedModel> keep(std::vector<variables::Variable> variables,
                                           std::vector<ModuleMode> parts);
  void check_outside(std::string_view made) const;
  std::vector<variables::Variable> adopt(
      std::span<const std::shared_ptr<torch::nn::Module>> modules, const std::string& name);
  void log_placement(const torch::nn::Module& model,
                     std::span<const variables::Variable> adopted) const;
  template <class Function, class... Arguments>
  auto run_each(Function& function, const Arguments&... arguments);
  void run_replicas(const std::optional<ExampleCounts>& examples,
                    const std::function<void(ReplicaContext&)>& body);
  std::vector<c10::Device> torch_devices() const;
  std::shared_ptr<StepMeter> step_meter() const;
  std::shared_ptr<EpochCounter> epoch_counter(const std::shared_ptr<const void>& dataset,
                                              const data::PipelineDescription& pipeline) const;
  WorkerLayout worker_layout() const;
  std::vector<InputContext> input_contexts(const InputOptions& options) const;
  at::Tensor summed_over_workers(at::Tensor sum) const;
  at::Tensor extreme_of(comm::ReduceOp op, const std::vector<at::Tensor>& parts,
                        const at::Tensor& like) const;

  std::unique_ptr<Engine> engine_;
};

inline constexpr base::AmbientSlot<Strategy> kStrategySlot{base::AmbientIndex::kStrategy};

/// The strategy whose scope is open on this thread, or null (TensorFlow: has_strategy,
/// get_strategy).
Strategy* current_strategy();

/// The open scope's strategy. Throws kFailedPrecondition, naming `what`, if there is none.
Strategy& require_strategy(std::string_view what);

/// `Strategy::create` and `Strategy::optimizer` of the strategy whose scope is open.
template <class Module, class... Arguments>
auto create(const Arguments&... arguments) {
  return require_strategy("create").create<Module>(arguments...);
}
template <class Model, class Rule>
Optimizer optimizer(const Model& model, const Rule& rule, const OptimizerOptions& options = {}) {
  return require_strategy("minimizer").optimizer(model, rule, options);
}

namespace internal {

template <class T>
const T& component(const T& value, int) {
  return value;
}
template <class T>
const T& component(const PerReplica<T>& value, int replica) {
  return value[static_cast<std::size_t>(replica)];
}
template <class T>
using Component = std::remove_cvref_t<decltype(component(std::declval<const T&>(), 0))>;

/// The example counts of the first argument that has them.
template <class T>
std::optional<ExampleCounts> examples_of(const T& value) {
  if constexpr (IsPerReplica<T>::value) return value.examples();
  return std::nullopt;
}
inline std::optional<ExampleCounts> first_examples() {
  return std::nullopt;
}
template <class First, class... Rest>
std::optional<ExampleCounts> first_examples(const First& first, const Rest&... rest) {
  if (auto found = examples_of(first)) return found;
  return first_examples(rest...);
}

}  // namespace internal

template <class Function, class... Arguments>
auto Strategy::run(Function&& function, const Arguments&... arguments) {
  constexpr bool takes_shares =
      std::is_invocable_v<Function&, ReplicaContext&, const internal::Component<Arguments>&...>;
  constexpr bool lacks_context =
      !takes_shares && std::is_invocable_v<Function&, const internal::Component<Arguments>&...>;
  static_assert(!lacks_context,
                "The function given to Strategy::run must take a ReplicaContext& before its other "
                "parameters.");
  static_assert(takes_shares || lacks_context,
                "The function given to Strategy::run does not take what run was given: a "
                "ReplicaContext&, then each argument, of a distributed batch this replica's share, "
                "which has the type of the dataset's batches.");
  if constexpr (takes_shares) {
    return run_each(function, arguments...);
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
  if constexpr (std::is_void_v<Result>) {
    run_replicas(examples, call);
  } else {
    std::vector<std::optional<Result>> slots(static_cast<std::size_t>(num_local_replicas()));
    run_replicas(examples, [&](ReplicaContext& context) {
      slots[static_cast<std::size_t>(context.local_id)].emplace(call(context));
    });
    std::vector<Result> results;
    for (auto& slot : slots) results.push_back(std::move(*slot));
    return PerReplica<Result>(std::move(results), examples);
  }
}

}  // namespace brigade::distribute
