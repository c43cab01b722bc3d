#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/cluster/cluster_config.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/ps/coordinator/function_data.h"

namespace brigade::ps {

/// The worker that runs a coordinator's functions, as they see it.
struct WorkerContext {
  cluster::ClusterConfig cluster;  ///< of this process
  int index = 0;                   ///< among the workers, without the coordinator, from 0
  int num_workers = 1;
  /// Cancelled when this process is to end: for `ParameterServerOptions::cancel` and other waits.
  concurrency::CancelToken cancel = {};
};

/// What a function is called with.
struct FunctionCall {
  const WorkerContext& worker;
  FunctionData arguments = {};
  /// This worker's values of the `PerWorkerValues` that the function was scheduled with: each a
  /// std::shared_ptr to what the dataset function has returned.
  std::vector<const std::any*> per_worker_values = {};
  /// Cancelled when nobody wants the result any longer, because another function has failed, or the
  /// worker is to end: a function that takes long may end by an exception then.
  concurrency::CancelToken cancel = {};

  /// A value by its position. Throws kInvalidArgument if there is none, or it has another type.
  template <class T>
  T& per_worker(std::size_t position = 0) const {
    check_argument(position < per_worker_values.size(), "A function asks for per-worker value ",
                   position, ", and was scheduled with ", per_worker_values.size(), ".");
    const auto* const value = std::any_cast<std::shared_ptr<T>>(per_worker_values[position]);
    check_argument(value != nullptr, "A function takes per-worker value ", position,
                   " as another type than its dataset function returns.");
    return **value;
  }
};

/// Functions by name, whatever the type of their workers' state: what ClusterCoordinator and
/// CoordinatedWorker take. Made as a FunctionRegistry.
///
/// Thread-safety: any number of readers, or one writer.
class FunctionTable {
 public:
  /// Throws kNotFound, naming those that are registered, unless there is a function, or a dataset
  /// function, of this name.
  void check_function(const std::string& name) const;
  void check_dataset(const std::string& name) const;

  /// Throws what the setup function throws, and kInvalidArgument if it returns null.
  std::shared_ptr<void> set_up(const WorkerContext& worker) const;
  /// `state` is what `set_up` has returned. Throw as `check_function`, and what the function
  /// throws.
  FunctionData call(const std::string& name, void* state, const FunctionCall& call) const;
  /// A std::shared_ptr to what the function returns.
  std::any make_dataset(const std::string& name, void* state, const FunctionCall& call) const;

 protected:
  using SetUp = std::function<std::shared_ptr<void>(const WorkerContext&)>;
  using Function = std::function<FunctionData(void* state, const FunctionCall&)>;
  using Dataset = std::function<std::any(void* state, const FunctionCall&)>;

  explicit FunctionTable(SetUp set_up) : set_up_(std::move(set_up)) {}
  void add_function(const std::string& name, Function function);
  void add_dataset_function(const std::string& name, Dataset function);

 private:
  void check_new(const std::string& name) const;

  SetUp set_up_;
  std::map<std::string, Function> functions_;
  std::map<std::string, Dataset> datasets_;
};

/// The functions that workers run for a ClusterCoordinator. C++ cannot send closures to other
/// processes, so a program registers its functions by name, and passes the registry to the
/// coordinator, which checks the names, and to the workers, which run the functions. All must be
/// processes of the same program.
///
///   struct Trainer { explicit Trainer(const WorkerContext& worker); ... };  // model, optimizer
///   FunctionRegistry functions([](const WorkerContext& worker) {
///     return std::make_unique<Trainer>(worker);
///   });
///   functions.add("train_step", [](Trainer& trainer, const FunctionCall& call) {
///     const at::Tensor loss = trainer.step(call.per_worker<Batches>());
///     return FunctionData{.tensors = {{"loss", loss}}};
///   });
///   functions.add_dataset("batches", [](Trainer& trainer, const FunctionCall& call) {
///     return trainer.batches(call.worker.index, call.worker.num_workers);
///   });
///
/// `State` is what a worker's functions share. The setup function makes it in each worker's
/// process, before its first function, and again after a setup that has failed. One thread runs
/// all functions of a worker, one after another.
template <class State>
class FunctionRegistry : public FunctionTable {
 public:
  /// `set_up(const WorkerContext&)` returns a std::unique_ptr to the state.
  template <class SetUpFunction>
  requires std::is_invocable_r_v < std::unique_ptr<State>,
  const SetUpFunction&, const WorkerContext& > explicit FunctionRegistry(SetUpFunction set_up)
      : FunctionTable([set_up = std::move(set_up)](
                          const WorkerContext& worker) -> std::shared_ptr<void> {
                          return std::shared_ptr<State>(set_up(worker));
                        }) {}

  /// `function(State&, const FunctionCall&)` returns FunctionData. Throws kInvalidArgument for a
  /// name that is empty, kAlreadyExists for one that is registered.
  template <class Function>
  void add(const std::string& name, Function function) {
    static_assert(
        std::is_invocable_r_v<FunctionData, const Function&, State&, const FunctionCall&>,
        "a function takes the worker's state and a const FunctionCall&, and returns FunctionData");
    add_function(
        name,
        [function = std::move(function)](void* state, const FunctionCall& call) -> FunctionData {
          return function(*static_cast<State*>(state), call);
        });
  }

  /// `function(State&, const FunctionCall&)` returns a value, mostly an iterator, which each worker
  /// makes for itself and keeps: `FunctionCall::per_worker`. Throws as `add`.
  template <class Function>
  void add_dataset(const std::string& name, Function function) {
    static_assert(std::is_invocable_v<const Function&, State&, const FunctionCall&>,
                  "a dataset function takes the worker's state and a const FunctionCall&");
    using Value = std::invoke_result_t<const Function&, State&, const FunctionCall&>;
    add_dataset_function(
        name, [function = std::move(function)](void* state, const FunctionCall& call) -> std::any {
          return std::shared_ptr<Value>(new Value(function(*static_cast<State*>(state), call)));
        });
  }
};

template <class SetUpFunction>
FunctionRegistry(SetUpFunction) -> FunctionRegistry<
    typename std::invoke_result_t<const SetUpFunction&, const WorkerContext&>::element_type>;

}  // namespace brigade::ps
