#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/restore.h"
#include "brigade/comm/worker_facts.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/strategy.h"
#include "brigade/io/state_tree.h"
#include "brigade/optim/moving_average.h"
#include "brigade/optim/schedule.h"
#include "brigade/metrics/metric.h"

namespace brigade::train {

/// What a part of a training gives to a checkpoint and takes back.
struct CheckpointableState {
  io::StateTree tree;
  std::map<std::string, at::Tensor> tensors;
};

/// Anything that goes on from step to step and is not known to `TrainingState` by itself: a hook's
/// counters, an early stopping's best value, a data source of one's own.
struct Checkpointable {
  /// Unique among the parts; letters, digits and "._/-".
  std::string name;
  std::function<CheckpointableState()> save;
  /// Takes back what `save` gave. Should throw and change nothing if it does not fit; what it
  /// throws is thrown on, and every part is as it was before.
  std::function<void(const CheckpointableState&)> restore;
  /// What to do if a checkpoint lacks it; kSkip leaves it as it is. Unset: what the restore's
  /// options say.
  std::optional<checkpoint::Missing> missing = std::nullopt;
};

struct TrainingRestoreOptions {
  /// Which variables are restored, under which names, and what is done if one is missing.
  checkpoint::RestoreOptions variables;
  /// What is done if the checkpoint lacks an optimizer, an iterator, averages or a part that does
  /// not say it itself. Metrics that it lacks begin anew.
  checkpoint::Missing missing_state = checkpoint::Missing::kRefuse;
};

/// What was and was not found.
struct TrainingRestoreReport {
  std::int64_t step = 0;
  checkpoint::RestoreReport variables;
  /// As in the checkpoint: "optimizer/adam", "iterator/train", "metric/accuracy", "part/...".
  std::vector<std::string> restored;
  std::vector<std::string> missing_in_checkpoint;
  std::vector<std::string> unused_in_checkpoint;
  /// What keeps the run from going on bit for bit as it would have: another number of replicas or
  /// strategy, another seed, another schedule. Each a sentence; they are logged as warnings, too.
  std::vector<std::string> differences;
};

/// Everything of a training that one checkpoint commits together, so that a run which is killed and
/// restored from it goes on exactly as if it had not been: variables, optimizers, the strategy's
/// step (on which random numbers depend), positions in the data, metrics, averages, hooks' own
/// state, and the global step.
///
///   TrainingState state(strategy);
///   state.add_model(model);
///   state.add_optimizer("adam", adam);
///   auto batches = strategy.distribute(train).iterator();
///   state.add_iterator("train", batches);
///   saver.save(state.global_step(), state.contents());
///
/// On the same number of replicas of the same strategy what is restored is bit for bit what was
/// saved, statistics that each replica keeps for itself included. On another number variables,
/// optimizers and metrics have the same values; each replica's own statistics begin as their
/// aggregate.
///
/// It holds references to what was added by reference, which must outlive it.
///
/// Thread-safety: one thread at a time, outside of replicas.
class TrainingState {
 public:
  explicit TrainingState(distribute::Strategy& strategy);
  ~TrainingState();
  TrainingState(const TrainingState&) = delete;
  TrainingState& operator=(const TrainingState&) = delete;

  /// All of the model's variables, buffers included; what is there already is not added again.
  template <class Model>
  void add_model(const Model& model) {
    add_variables(model.variables());
  }
  void add_variables(std::span<const variables::Variable> variables);

  /// The slots are saved as `<name>/<slot>/<variable>`. All functions that add throw
  /// kAlreadyExists for a name that has been added, kInvalidArgument for one that is no name.
  void add_optimizer(const std::string& name, const distribute::Optimizer& optimizer);
  /// The optimizer's rate at each step: `apply_schedules` sets it. Throws kNotFound if there is no
  /// such optimizer.
  void add_schedule(const std::string& optimizer, optim::SchedulePtr schedule);
  /// A DistributedIterator, a data::Iterator, or anything else that saves and restores a state
  /// tree.
  template <class Iterator>
  void add_iterator(const std::string& name, Iterator& iterator) {
    add_iterator_functions(
        name, [&iterator] { return iterator.save(); },
        [&iterator](const io::StateTree& tree) { iterator.restore(tree); });
  }
  /// Saved under the metric's own name.
  void add_metric(const metrics::Metric& metric);
  void add_averages(const std::string& name, optim::ExponentialMovingAverage& averages);
  void add(Checkpointable checkpointable);
  /// For a hook that has ended. Nothing happens if there is no such part.
  void remove(const std::string& name);

  /// Steps made. Whoever runs the steps counts them: a session does.
  std::int64_t global_step() const;
  /// Throws kInvalidArgument below 0.
  void set_global_step(std::int64_t step);
  /// From now on the global step is this variable (`OptimizerOptions::global_step`), which the
  /// optimizer counts in each update; it is added to the variables.
  void count_by(const variables::Variable& global_step);
  /// One more step, if no variable counts them.
  void advance();

  /// Sets every optimizer's rate to what its schedule says for the global step. Before each step.
  void apply_schedules() const;

  /// Whether no optimizer has gathered micro-batches that it has not applied: gathered gradients
  /// are in no checkpoint, so only such a state goes on exactly.
  bool is_between_updates() const;

  /// A figure to be saved with the next checkpoints, by which `SaverOptions::best_of` chooses.
  void set_metric_value(const std::string& name, double value);

  /// What every worker's training must have alike: optimizers by name with their schedules, parts
  /// and the number of variables. Sessions compare it.
  comm::Facts facts() const;

  /// What a checkpoint of now holds: hand it to `checkpoint::Saver::save`. Variables and slots are
  /// not copied yet. With several workers it is a collective of theirs, as copying it is
  /// (`checkpoint::take_snapshot`): one that does not write does both, and drops them.
  checkpoint::Contents contents() const;

  /// Goes on from a checkpoint. Everything is read and checked before anything changes, and if a
  /// part refuses its state, those before it get theirs back: an error leaves the training as it
  /// was. Gradients gathered so far are dropped.
  ///
  /// Throws kNotFound for what is missing and not skipped, kInvalidArgument, naming both, for what
  /// does not fit (shapes, dtypes, an optimizer of another rule), kDataLoss for a broken file.
  TrainingRestoreReport restore(const checkpoint::Checkpoint& checkpoint,
                                const TrainingRestoreOptions& options = {});

  distribute::Strategy& strategy() const { return strategy_; }
  const std::vector<variables::Variable>& variables() const { return variables_; }

 private:
  class Restorer;
  struct Optimizer {
    std::string name;
    distribute::Optimizer optimizer;
    optim::SchedulePtr schedule;
  };
  void add_iterator_functions(const std::string& name, std::function<io::StateTree()> save,
                              std::function<void(const io::StateTree&)> restore);
  void add_checked(Checkpointable checkpointable);
  std::vector<variables::Variable> per_replica_statistics() const;
  std::vector<at::Tensor> components_of_all_replicas(const variables::Variable& variable) const;

  distribute::Strategy& strategy_;
  std::vector<variables::Variable> variables_;
  std::vector<Optimizer> optimizers_;
  std::vector<Checkpointable> checkpointables_;  // metrics, averages and iterators among them
  std::vector<variables::Variable> metric_sums_;
  std::map<std::string, double> metric_values_;
  std::optional<variables::Variable> counter_;
  std::int64_t global_step_ = 0;
};

/// The seed of the strategy under which a training's checkpoint was saved; nothing if it is none of
/// a training. Throws as `Checkpoint::state`.
std::optional<std::uint64_t> saved_seed(const checkpoint::Checkpoint& checkpoint);

}  // namespace brigade::train
