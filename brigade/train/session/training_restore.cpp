#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/strategy.h"
#include "brigade/io/state_json.h"
#include "brigade/machine/topology.h"
#include "brigade/train/session/training_names.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {

using base::str_cat;
using checkpoint::Missing;
using variables::Variable;

namespace {

using Tensors = std::map<std::string, at::Tensor>;

/// The tensors whose names start with `prefix`; the prefix is kept or removed.
enum class Prefix { kKeep, kRemove };
Tensors with_prefix(const Tensors& tensors, const std::string& prefix, Prefix how) {
  Tensors found;
  for (auto each = tensors.lower_bound(prefix);
       each != tensors.end() && each->first.starts_with(prefix); ++each)
    found.emplace(how == Prefix::kRemove ? each->first.substr(prefix.size()) : each->first,
                  each->second);
  return found;
}

/// Copies the tensors: the saved state may alias tensors that are about to change.
CheckpointableState clone_tensors(CheckpointableState state) {
  for (auto& [name, tensor] : state.tensors) tensor = tensor.clone();
  return state;
}

/// Copies of the values of variables in each replica; a metric's own `restore` restores only the
/// aggregate.
class ReplicaCopies {
 public:
  explicit ReplicaCopies(std::span<const Variable> variables) : variables_(variables) {
    for (const Variable& variable : variables_) {
      for (int replica = 0; replica < variable.num_components(); ++replica)
        copies_.push_back(variable.component(replica).detach().clone());
    }
  }
  void restore() const {
    auto copy = copies_.begin();
    for (const Variable& variable : variables_) {
      for (int replica = 0; replica < variable.num_components(); ++replica) {
        variable.component(replica).detach().copy_(*copy++);
        variable.mark_updated(replica);
      }
    }
  }

 private:
  std::span<const Variable> variables_;
  std::vector<at::Tensor> copies_;
};

bool has_same_shape_and_dtype(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

}  // namespace

/// One restore: the constructor reads and checks, `apply` makes the changes.
class TrainingState::Restorer {
 public:
  Restorer(TrainingState& training, const checkpoint::Checkpoint& checkpoint,
           const TrainingRestoreOptions& options)
      : training_(training), options_(options), source_(checkpoint.path().string()) {
    state_ = checkpoint.state();
    check_argument(state_.has("global_step") && state_.has("strategy"), source_,
                   " is not the checkpoint of a whole training state: restore its variables alone, "
                   "with checkpoint::restore_variables.");
    variables_ = checkpoint.tensors(checkpoint::Section::kVariables);
    for (auto& each : checkpoint.tensors(checkpoint::Section::kTensors))
      tensors_.emplace(std::move(each.name), std::move(each.tensor));
    report_.step = state_.as_int64("global_step");
    check_argument(report_.step >= 0, source_, " has the global step ", report_.step, ".");
    strategy_step_ = state_.as_uint64("strategy", "step");
    find_optimizers();
    find_checkpointables();
    find_unused();
    compare();
  }

  TrainingRestoreReport apply() {
    restore_checkpointables();
    for (const FoundOptimizer& each : optimizers_) {
      each.optimizer->optimizer.restore(each.optimizer->name, each.saved, missing_slots());
    }
    restore_statistics();
    training_.strategy_.set_step(strategy_step_);
    training_.set_global_step(report_.step);
    for (const std::string& each : report_.differences) base::log_warning(each);
    return std::move(report_);
  }

 private:
  struct FoundOptimizer {
    const NamedOptimizer* optimizer;
    optim::SavedOptimizer saved;
  };
  struct FoundCheckpointable {
    const Checkpointable* checkpointable;
    CheckpointableState saved;
  };

  optim::MissingSlots missing_slots() const {
    return options_.missing_state == Missing::kSkip ? optim::MissingSlots::kSkip
                                                    : optim::MissingSlots::kRefuse;
  }

  /// Records in the report whether the state `name` was found; throws if it is missing and not
  /// skipped.
  bool is_found(const std::string& name, bool exists, Missing missing) {
    if (exists) {
      report_.restored.push_back(name);
      return true;
    }
    if (missing == Missing::kRefuse) {
      throw Error(ErrorCode::kNotFound, "Checkpoint is missing [", name, "] (", source_,
                  "): it was saved without it. Give it the name that it had, another directory, or "
                  "what may be missing (TrainingRestoreOptions).");
    }
    report_.missing_in_checkpoint.push_back(name);
    return false;
  }

  void find_optimizers() {
    const io::StateTree& saved = state_.at("optimizers");
    for (const NamedOptimizer& each : training_.optimizers_) {
      if (!is_found(str_cat("optimizer/", each.name), saved.has(each.name), options_.missing_state))
        continue;
      FoundOptimizer found{&each,
                           {.slots = with_prefix(tensors_, each.name + "/", Prefix::kKeep),
                            .state = saved.at(each.name)}};
      const auto missing_variables =
          each.optimizer.state().check(each.name, found.saved, missing_slots());
      for (const std::string& variable : missing_variables)
        report_.missing_in_checkpoint.push_back(str_cat("optimizer/", each.name, ": ", variable));
      optimizers_.push_back(std::move(found));
    }
  }

  void find_checkpointables() {
    const io::StateTree& saved = state_.at("parts");
    for (const Checkpointable& each : training_.checkpointables_) {
      const Missing missing = each.missing.value_or(options_.missing_state);
      if (!is_found(each.name, saved.has(each.name), missing)) continue;
      checkpointables_.push_back(
          {&each,
           {.tree = saved.at(each.name),
            .tensors =
                with_prefix(tensors_, checkpointable_tensor_prefix(each.name), Prefix::kRemove)}});
    }
  }

  void find_unused() {
    std::set<std::string> unused;
    for (const auto& [name, saved] : state_.as_dict("optimizers"))
      unused.insert(str_cat("optimizer/", name));
    for (const auto& [name, saved] : state_.as_dict("parts")) unused.insert(name);
    for (const std::string& name : report_.restored) unused.erase(name);
    report_.unused_in_checkpoint.assign(unused.begin(), unused.end());
  }

  void add_difference(const std::string& difference) {
    report_.differences.push_back(str_cat(source_, ": ", difference));
  }

  void compare() {
    const io::StateTree& strategy = state_.at("strategy");
    const std::int64_t saved_on = strategy.as_int64("replicas");
    const int replicas = training_.strategy_.num_replicas_in_sync();
    // Strategies aggregate in different ways, so values per replica are valid only for the same
    // strategy.
    is_same_layout_ =
        has_same_logical_replicas(strategy) ||
        (saved_on == replicas && strategy.as_string("name") == training_.strategy_.name() &&
         has_same_workers(strategy));
    if (!is_same_layout_) {
      add_difference(str_cat(
          "saved on ", saved_on, " replicas under ", strategy.as_string("name"),
          " and restored on ", replicas, " under ", training_.strategy_.name(),
          ": the run resumes with the same values, but its results will not be bit-identical."));
    }
    compare_arithmetic(strategy);
    const std::uint64_t seed = strategy.as_uint64("seed");
    if (seed != training_.strategy_.seed()) {
      add_difference(str_cat("saved with seed ", seed, " and restored with seed ",
                             training_.strategy_.seed(), ": random numbers differ from here on."));
    }
    compare_numerics(strategy);
    for (const NamedOptimizer& each : training_.optimizers_) compare_schedule(each);
  }

  void compare_numerics(const io::StateTree& strategy) {
    if (!strategy.has("numerics")) return;  // saved before there was a choice
    const std::string saved = strategy.as_string("numerics");
    const std::string_view now = device::to_string(training_.strategy_.numerics());
    if (saved == now) return;
    add_difference(str_cat("saved with ", saved, " numerics and restored with ", now,
                           " ones: on GPUs the results will not be bit-identical."));
  }

  void compare_arithmetic(const io::StateTree& strategy) {
    const std::string& now = training_.strategy_.arithmetic_fingerprint();
    if (now.empty() || !strategy.has("arithmetic_fingerprint")) return;
    const std::string saved = strategy.as_string("arithmetic_fingerprint");
    if (saved.empty() || saved == now) return;
    add_difference(str_cat(
        "saved on a processor whose arithmetic has the fingerprint ", saved,
        " and restored on one with ", now, " (", machine::processor_name(),
        "): the run resumes with the same values, but its results will not be bit-identical."));
  }

  /// Then neither the strategy nor its devices and workers matter.
  bool has_same_logical_replicas(const io::StateTree& strategy) const {
    const int now = training_.strategy_.logical_replicas();
    return now > 0 && strategy.has("logical_replicas") &&
           strategy.as_int64("logical_replicas") == now;
  }

  bool has_same_workers(const io::StateTree& strategy) const {
    const distribute::WorkerGroup* workers = training_.strategy_.workers();
    if (workers == nullptr) return !strategy.has("workers");
    return strategy.has("workers") && strategy.at("workers") == layout_of(*workers);
  }

  void compare_schedule(const NamedOptimizer& optimizer) {
    const io::StateTree& optimizers = state_.at("optimizers");
    if (!optimizers.has(optimizer.name)) return;
    const io::StateTree& saved = optimizers.at(optimizer.name);
    const io::StateTree before = saved.has("schedule") ? saved.at("schedule") : io::StateTree();
    const io::StateTree now = optimizer.schedule ? optimizer.schedule->config() : io::StateTree();
    if (before == now) return;
    add_difference(str_cat("optimizer '", optimizer.name, "' had the schedule ",
                           io::to_json(before).json, " and has ", io::to_json(now).json,
                           " now; the new schedule is used."));
  }

  // Whether a checkpointable accepts its state shows only in `restore`. If one throws, all are
  // restored to their previous state.
  void restore_checkpointables() {
    std::vector<std::pair<const Checkpointable*, CheckpointableState>> before;
    const ReplicaCopies metric_sums(training_.metric_sums_);
    try {
      for (const FoundCheckpointable& each : checkpointables_) {
        before.emplace_back(each.checkpointable, clone_tensors(each.checkpointable->save()));
        each.checkpointable->restore(each.saved);
      }
      restore_variables();
    } catch (...) {
      for (auto each = before.rbegin(); each != before.rend(); ++each)
        each->first->restore(each->second);
      metric_sums.restore();
      throw;
    }
  }

  void restore_variables() {
    const std::vector<Variable> variables = with_value();
    if (variables.empty()) return;
    report_.variables =
        checkpoint::restore_variables(variables_, source_, variables, options_.variables);
  }

  std::vector<Variable> with_value() const {
    std::vector<Variable> all = training_.variables_;
    std::erase_if(all, [](const Variable& variable) {
      return variable.synchronization() == variables::Synchronization::kOnRead &&
             variable.aggregation() == variables::Aggregation::kNone;
    });
    return all;
  }

  /// Whether the options kept the variable from being restored from its own name.
  bool is_not_restored(const Variable& variable) const {
    if (variable.aggregation() == variables::Aggregation::kNone) return false;
    const auto has_its_name = [&](const Variable& each) { return each.name() == variable.name(); };
    const auto& all = training_.variables_;
    if (std::none_of(all.begin(), all.end(), has_its_name)) return false;  // a metric's
    const auto& restored = report_.variables.restored;
    return std::none_of(restored.begin(), restored.end(), [&](const auto& each) {
      return each.variable == variable.name() && each.stored == variable.name();
    });
  }

  // With another number of replicas or another strategy, the statistics keep the restored
  // aggregate.
  void restore_statistics() {
    if (!is_same_layout_) return;
    const at::NoGradGuard no_grad;
    for (const Variable& variable : training_.per_replica_statistics()) {
      if (is_not_restored(variable)) continue;
      for (int replica = 0; replica < variable.num_components(); ++replica) {
        const auto found = tensors_.find(replica_tensor_name(
            training_.strategy_.replica_range().first + replica, variable.name()));
        if (found == tensors_.end() ||
            !has_same_shape_and_dtype(found->second, variable.component(replica)))
          break;
        variable.component(replica).detach().copy_(found->second);
        variable.mark_updated(replica);
      }
    }
  }

  TrainingState& training_;
  const TrainingRestoreOptions& options_;
  const std::string source_;
  io::StateTree state_;
  std::vector<checkpoint::NamedTensor> variables_;
  Tensors tensors_;
  std::uint64_t strategy_step_ = 0;
  bool is_same_layout_ = false;
  std::vector<FoundOptimizer> optimizers_;
  std::vector<FoundCheckpointable> checkpointables_;
  TrainingRestoreReport report_;
};

std::optional<std::uint64_t> saved_seed(const checkpoint::Checkpoint& checkpoint) {
  const io::StateTree state = checkpoint.state();
  if (!state.has("strategy") || !state.at("strategy").has("seed")) return std::nullopt;
  return state.as_uint64("strategy", "seed");
}

TrainingRestoreReport TrainingState::restore(const checkpoint::Checkpoint& checkpoint,
                                             const TrainingRestoreOptions& options) {
  TrainingRestoreReport report = Restorer(*this, checkpoint, options).apply();
  store();
  return report;
}

}  // namespace brigade::train
