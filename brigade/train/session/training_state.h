#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/checkpoint/restore.h"
#include "brigade/comm/small_collectives.h"
#include "brigade/io/state_tree.h"
#include "brigade/optim/schedule.h"
#include "brigade/variables/variable.h"

namespace brigade::checkpoint {
struct Contents;
}  // namespace brigade::checkpoint
namespace brigade::distribute {
class Optimizer;
class Strategy;
}  // namespace brigade::distribute
namespace brigade::metrics {
class Metric;
}  // namespace brigade::metrics
namespace brigade::optim {
class ExponentialMovingAverage;
}  // namespace brigade::optim

namespace brigade::train {

/// The state of a `Checkpointable`, as it is saved in a checkpoint.
struct CheckpointableState {
  io::StateTree tree;
  std::map<std::string, at::Tensor> tensors;
};

/// State that lasts from step to step and that `TrainingState` does not know by itself: the
/// counters of a hook, the best value of early stopping, the position of a custom data source.
struct Checkpointable {
  /// Unique in its `TrainingState`; letters, digits and "._/-".
  std::string name;
  /// Returns the current state.
  std::function<CheckpointableState()> save;
  /// Restores the result of `save`. Should throw, and change nothing, if the state does not match;
  /// then the error is rethrown, and the whole training state is as before.
  std::function<void(const CheckpointableState&)> restore;
  /// What to do if a checkpoint does not contain it; kSkip leaves it unchanged. Unset:
  /// `TrainingRestoreOptions::missing_state`.
  std::optional<checkpoint::Missing> missing = std::nullopt;
};

/// What a restore does with state that the checkpoint does not contain. By default it throws.
struct TrainingRestoreOptions {
  /// Which variables to restore, from which names, and what to do if one is missing.
  checkpoint::RestoreOptions variables;
  /// What to do if the checkpoint contains no state of an optimizer, an iterator, averages, or a
  /// `Checkpointable` without its own `missing`. Metrics that it does not contain start from zero.
  checkpoint::Missing missing_state = checkpoint::Missing::kRefuse;
};

/// What a restore found and did not find.
struct TrainingRestoreReport {
  std::int64_t step = 0;
  checkpoint::RestoreReport variables;
  /// Names as in the checkpoint: "optimizer/adam", "iterator/train", "metric/accuracy", "part/...".
  std::vector<std::string> restored;
  std::vector<std::string> missing_in_checkpoint;
  std::vector<std::string> unused_in_checkpoint;
  /// Reasons why the resumed run will not be bit-identical to the uninterrupted one: another number
  /// of replicas, strategy, seed or schedule. One sentence each; they are also logged as warnings.
  std::vector<std::string> differences;
};

/// The whole state of a training, which one checkpoint commits together: variables, optimizers, the
/// strategy's step (on which random numbers depend), positions in the data, metrics, averages, the
/// state of hooks, and the global step. A run that is killed and restored from it resumes exactly
/// as if it had not been killed.
///
///   TrainingState state(strategy);
///   state.add_model(model);
///   state.add_optimizer("adam", adam);
///   auto batches = strategy.distribute(train).iterator();
///   state.add_iterator("train", batches);
///   saver.save(state.global_step(), state.contents());
///
/// With the same strategy and number of replicas, the restored state is bit-identical to the saved
/// one, including statistics that differ between replicas. With another number of replicas,
/// variables, optimizers and metrics have the same values, and the statistics of each replica start
/// from their aggregate.
///
/// It keeps references to the objects that were added by reference; they must outlive it.
///
/// Thread-safety: one thread at a time, outside of replicas.
class TrainingState {
 public:
  explicit TrainingState(distribute::Strategy& strategy);
  ~TrainingState();
  TrainingState(const TrainingState&) = delete;
  TrainingState& operator=(const TrainingState&) = delete;

  /// Adds everything that was created in the strategy, still exists, and was not added before:
  /// models and other variables with names, optimizers (as "adam", "adam_1", after their rules),
  /// metrics, and, if no iterator was added, iterators over distributed datasets (as "data",
  /// "data_1"). If an optimizer counts updates in a variable, that variable counts the steps.
  /// Iterators and metrics must exist as long as states are saved: saving throws
  /// kFailedPrecondition otherwise.
  void add_created();
  /// Throws kFailedPrecondition if an optimizer was created in the strategy after `add_created`:
  /// what it trains would be in no checkpoint. Sessions call it before the first step, and
  /// `contents` does. (TensorFlow: a session finalizes its graph.)
  void check_complete() const;

  /// Adds all variables of the model, including buffers. Variables that were already added are
  /// skipped.
  template <class Model>
  void add_model(const Model& model) {
    add_variables(model.variables());
  }
  void add_variables(std::span<const variables::Variable> variables);

  /// The slots are saved as `<name>/<slot>/<variable>`. All `add` functions throw kAlreadyExists
  /// for a name that was already added, and kInvalidArgument for an invalid name.
  void add_optimizer(const std::string& name, const distribute::Optimizer& optimizer);
  /// The learning rate of the optimizer at each step: `apply_schedules` sets it. Throws kNotFound
  /// if there is no such optimizer.
  void add_schedule(const std::string& optimizer, optim::SchedulePtr schedule);
  /// A DistributedIterator, a data::Iterator, or any other object that saves and restores a state
  /// tree.
  template <class Iterator>
  void add_iterator(const std::string& name, Iterator& iterator) {
    add_iterator_functions(
        name, [&iterator] { return iterator.save(); },
        [&iterator](const io::StateTree& tree) { iterator.restore(tree); });
  }
  /// Saved under the name of the metric.
  void add_metric(const metrics::Metric& metric);
  void add_averages(const std::string& name, optim::ExponentialMovingAverage& averages);
  void add(Checkpointable checkpointable);
  /// Removes a `Checkpointable`, for example of a hook that has ended. Does nothing if there is
  /// none of this name.
  void remove(const std::string& name);

  /// The number of steps made. The code that runs the steps counts them; a session does this. If
  /// the strategy counts the updates of the job (`Strategy::global_step`), it is that number.
  std::int64_t global_step() const;
  /// A strategy that counts the updates of the job has this number from the next `store` on. Throws
  /// kInvalidArgument below 0.
  void set_global_step(std::int64_t step);
  /// From now on the global step is this variable (`OptimizerOptions::global_step`), which the
  /// optimizer increments in each update. It is added to the variables.
  void count_by(const variables::Variable& global_step);
  /// Increments the global step, unless a variable or the strategy counts the steps, or all
  /// optimizers left out their updates because of an overflow
  /// (`OptimizerOptions::gradient_scaler`).
  void advance();

  /// Sets the learning rate of each optimizer by its schedule and the global step. Call it before
  /// each step.
  void apply_schedules() const;

  /// Whether no optimizer has accumulated gradients of micro-batches that it has not applied yet.
  /// Checkpoints do not contain accumulated gradients, so only such a state can be resumed exactly.
  bool is_between_updates() const;

  /// A value to be saved with the next checkpoints, by which `SaverOptions::best_of` chooses.
  void set_metric_value(const std::string& name, double value) { metric_values_[name] = value; }

  /// What must be equal in all workers: the names of the optimizers with their schedules, the names
  /// of the checkpointables, and the number of variables. Sessions compare it.
  comm::Facts facts() const;

  /// The contents of a checkpoint of the current state, for `checkpoint::Saver::save`. Variables
  /// and slots are not copied yet. With several workers this is a collective, and so is copying
  /// (`checkpoint::take_snapshot`): a worker that writes nothing must call both, too, and drop the
  /// result. State that the strategy keeps elsewhere is fetched first; `state["global_step"]` is
  /// the step that belongs to it.
  checkpoint::Contents contents() const;

  /// Restores the state from a checkpoint. Everything is read and checked before anything changes,
  /// and if one `restore` function throws, all that were called before are undone: an error leaves
  /// the training state unchanged. Accumulated gradients are dropped. In the end it calls `store`,
  /// whose errors leave the state restored here and not stored.
  ///
  /// Throws kNotFound for state that is missing and not skipped; kInvalidArgument, naming both
  /// sides, for state that does not match (shapes, dtypes, an optimizer with another rule);
  /// kDataLoss for a broken file.
  TrainingRestoreReport restore(const checkpoint::Checkpoint& checkpoint,
                                const TrainingRestoreOptions& options = {});

  /// Copies what was initialized or restored here to where it belongs, if the strategy keeps it
  /// elsewhere: on parameter servers. In a worker that is not the chief it fetches what the chief
  /// has stored. Does nothing in other strategies. Call it when `Scaffold::init` or other code has
  /// set initial values; a session does this.
  void store();

  distribute::Strategy& strategy() const { return strategy_; }
  const std::vector<variables::Variable>& variables() const { return variables_; }

 private:
  class Restorer;
  struct NamedOptimizer;
  void add_created_optimizers();
  bool has_optimizer(const distribute::Optimizer& optimizer) const;
  void add_iterator_functions(const std::string& name, std::function<io::StateTree()> save,
                              std::function<void(const io::StateTree&)> restore);
  void add_checked(Checkpointable checkpointable);
  std::vector<variables::Variable> per_replica_statistics() const;
  std::vector<at::Tensor> components_of_all_replicas(const variables::Variable& variable) const;
  void set_counter(std::int64_t step) const;
  void follow_job() const;

  distribute::Strategy& strategy_;
  std::vector<variables::Variable> variables_;
  std::vector<NamedOptimizer> optimizers_;
  bool has_added_created_ = false;
  std::vector<Checkpointable> checkpointables_;  // including metrics, averages and iterators
  std::vector<variables::Variable> metric_sums_;
  std::vector<std::shared_ptr<const void>> fetched_averages_;
  std::map<std::string, double> metric_values_;
  std::optional<variables::Variable> counter_;
  std::int64_t global_step_ = 0;
};

/// The seed of the strategy under which the checkpoint was saved; nothing if it is not the
/// checkpoint of a training state. Throws as `Checkpoint::state`.
std::optional<std::uint64_t> saved_seed(const checkpoint::Checkpoint& checkpoint);

}  // namespace brigade::train
