#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "brigade/cluster/cluster_config.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/concurrency/cancel_token.h"
#include "brigade/io/state_tree.h"
#include "brigade/ps/coordinator/function_data.h"
#include "brigade/ps/coordinator/function_registry.h"
#include "brigade/ps/coordinator/remote_value.h"
#include "brigade/ps/parameter_server_strategy.h"

namespace brigade::ps {

/// Options of ClusterCoordinator.
struct ClusterCoordinatorOptions {
  /// How many functions may wait for a worker: `schedule` blocks while there are as many.
  std::size_t queue_capacity = 4096;
  /// A function whose worker was lost this many times while it had the function counts as failed.
  int max_losses = 8;
  /// A worker that is silent for this long is lost, and its function is run by another.
  std::chrono::milliseconds lease = std::chrono::seconds(8);
  /// How long the destructor waits for workers of the cluster that have never joined: of use where
  /// a worker that finds no coordinator fails.
  std::chrono::milliseconds wait_for_latecomers{0};
  /// `schedule`, `join` and `fetch` throw kDeadlineExceeded after this time. Unset: they wait until
  /// `cancel`.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// The largest message: a function's arguments, or its result.
  std::size_t max_message_bytes = std::size_t{1} << 30;
  /// All messages together that are being received or sent.
  std::size_t max_buffered_bytes = std::size_t{2} << 30;
  /// The key that all processes of the cluster share. Default: `ClusterKey::from_environment`.
  std::optional<cluster::ClusterKey> key = cluster::ClusterKey::from_environment();
  /// Cancels all functions, and ends all waits.
  concurrency::CancelToken cancel = {};
};

/// A value that each worker makes for itself, by a dataset function of the registry: mostly an
/// iterator over its input. A worker makes it when it runs the first function that uses it, and
/// keeps it until it ends; its successor makes a new one, from the beginning. Of use as an argument
/// of functions of the coordinator that created it.
class PerWorkerValues {
 private:
  friend class ClusterCoordinator;
  struct Creation;
  explicit PerWorkerValues(std::shared_ptr<const Creation> creation)
      : creation_(std::move(creation)) {}
  std::shared_ptr<const Creation> creation_;
};

/// One process that directs a training with parameter servers: it schedules functions, which the
/// workers run as they become free. It is the cluster's task "chief:0", trains nothing itself, and
/// is the only one that decides how many steps are made, when the model is evaluated, and when it
/// is saved.
///
///   ParameterServerStrategy strategy({.chief = ChiefRole::kCoordinates});
///   const auto model = strategy.create<Net>();
///   const auto sgd = strategy.optimizer(model, optim::Sgd{});  // creates variables on the servers
///   ClusterCoordinator coordinator(strategy, functions);       // a FunctionRegistry
///   const auto batches = coordinator.create_per_worker_dataset("batches");
///   for (int epoch = 0; epoch < epochs; ++epoch) {
///     for (int step = 0; step < steps; ++step)
///       loss = coordinator.schedule("train_step", {}, {batches});
///     coordinator.join();
///     strategy.fetch_state();                                  // the servers' values
///     evaluate(strategy, model, test);
///   }
///
/// Functions start in the order in which they were scheduled, and run at the same time on different
/// workers. A function whose worker is lost is run again by another: so it may run more than once,
/// and a run that was lost may have pushed gradients, which count. Each push of a run is applied
/// exactly once.
///
/// The first error of a function cancels all others, is thrown once, by the next `schedule` or
/// `join`, and the coordinator is usable again. A worker that is lost is no error: as long as one
/// of the job's workers runs, or is restarted, the functions continue.
///
/// A coordinator that is started again knows nothing of the functions of the earlier one: these are
/// lost, with their values. The model is on the servers.
///
/// TensorFlow: tf.distribute.coordinator.ClusterCoordinator.
///
/// Thread-safety: all functions from any thread, except that `schedule` with a strategy is called
/// by the thread that uses the strategy.
class ClusterCoordinator {
 public:
  /// Listens at the address of chief:0 until it is destroyed. `strategy` and `functions` must
  /// outlive this. Throws kInvalidArgument unless the strategy has ChiefRole::kCoordinates, the
  /// process is chief:0, and the cluster has workers; as `rpc::listen_for_messages`.
  ClusterCoordinator(ParameterServerStrategy& strategy, const FunctionTable& functions,
                     ClusterCoordinatorOptions options = {});
  /// The same for functions that train nothing, or whose model the coordinator does not have.
  ClusterCoordinator(const cluster::ClusterConfig& cluster, const FunctionTable& functions,
                     ClusterCoordinatorOptions options = {});
  /// Cancels the functions that wait or run, and notifies the workers of the end;
  /// waits up to 15 seconds until they have left, and for those that were lost in the last three
  /// leases, which may be started again. If an exception is in flight, workers are not
  /// notified, and wait for the coordinator to be started again; so does a worker that joins later.
  ~ClusterCoordinator();
  ClusterCoordinator(const ClusterCoordinator&) = delete;
  ClusterCoordinator& operator=(const ClusterCoordinator&) = delete;

  /// Has a worker run a function of the registry, as soon as one is free; waits while the queue is
  /// full. Copies the arguments. The first call lets the workers begin to use the variables
  /// (`Strategy::start_job`), so initialize or restore them before.
  ///
  /// `inputs` are results of earlier functions: `schedule("join", {}, {}, {{"left", value}})`. The
  /// function waits for them, and is run then, after others that were scheduled since. Of an input
  /// "left" the values are `call.arguments.values.at("left")`, and a tensor "x" is
  /// `call.arguments.tensor("left/x")`. They come from the coordinator, so the worker that has made
  /// them may be another one, or lost. TensorFlow refuses RemoteValues as arguments.
  ///
  /// Throws, and schedules nothing,
  ///   - kNotFound for a function that is not registered;
  ///   - kInvalidArgument for arguments that no message can have, for an input of another
  ///     coordinator, and for an input whose name occurs twice or is that of an argument;
  ///   - the error of an earlier function that has failed, or that with which an input was aborted;
  ///   - kDeadlineExceeded and kCancelled, if the queue stays full.
  /// A function whose inputs are too large for a message fails.
  RemoteValue schedule(const std::string& function, const FunctionData& arguments = {},
                       const std::vector<PerWorkerValues>& per_worker = {},
                       const std::vector<RemoteInput>& inputs = {});
  /// Waits until all functions have ended, also those that were cancelled while they ran. Throws
  /// the error of one that has failed; kDeadlineExceeded, kCancelled.
  void join();
  /// Whether all functions have ended. Does not wait, and throws nothing.
  bool done() const;
  /// Waits for a value, and returns it; as `RemoteValue::get` with `timeout` of the options.
  FunctionData fetch(const RemoteValue& value) const;
  /// The values in their order.
  std::vector<FunctionData> fetch(const std::vector<RemoteValue>& values) const;

  /// Describes a value that each worker makes by a dataset function of the registry; an error of
  /// it is one of the function that uses it. Throws kNotFound for a function that is not
  /// registered.
  PerWorkerValues create_per_worker_dataset(const std::string& function,
                                            const io::StateTree& arguments = {});

  /// The position of a value of this coordinator that is no longer pending; the first of several.
  /// Waits for one; unset after `timeout`, and if `values` is empty.
  std::optional<std::size_t> wait_any(const std::vector<RemoteValue>& values,
                                      std::chrono::milliseconds timeout) const;

  /// For programs whose workers make the same calls as the coordinator, one phase of functions
  /// after another (`Model::fit`): what is scheduled from now on is run by workers that are in
  /// `CoordinatedWorker::serve_phase` with the number that this returns: 1, 2, ... A phase that was
  /// not ended has failed. Throws kCancelled after the coordinator was cancelled.
  std::int64_t begin_phase();
  /// Ends the phase. Its workers, also those that join later, get `outcome` (without arrays). Its
  /// functions that wait or run are cancelled. Throws kFailedPrecondition if there is none.
  void end_phase(const io::StateTree& outcome);
  /// Cancels the functions that wait or run, and forgets the error of one that has failed. Waits
  /// for nothing: `join` waits until those that run have ended.
  void drop_functions();

  /// "host:port".
  std::string address() const;
  /// How many workers are there now.
  int num_workers() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brigade::ps
