#include "brigade/train/session/training_state.h"

#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cctype>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/distribute/created_state.h"
#include "brigade/distribute/optimizer/optimizer.h"
#include "brigade/distribute/replica_context.h"
#include "brigade/distribute/strategy.h"
#include "brigade/io/state_json.h"
#include "brigade/metrics/metric.h"
#include "brigade/optim/moving_average.h"
#include "brigade/train/session/training_names.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::train {

using base::str_cat;
using variables::Variable;

namespace {

void check_name(std::string_view name) {
  const auto is_allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._/-").find(static_cast<char>(c)) != std::string_view::npos;
  };
  check_argument(
      !name.empty() && std::all_of(name.begin(), name.end(), is_allowed), "'", name,
      "' is not a valid name of a checkpointable: use letters, digits and any of . _ / -");
}

bool has_name(const auto& items, std::string_view name) {
  return std::ranges::any_of(items, [&](const auto& each) { return each.name == name; });
}

/// "data", "data_1", "data_2"
std::string numbered(const std::string& name, int number) {
  return number == 0 ? name : str_cat(name, "_", number);
}

/// Does not keep the object in existence.
Checkpointable checkpointable_of(const std::string& name,
                                 const std::shared_ptr<const distribute::CreatedState>& created) {
  const auto state = [name, weak = std::weak_ptr(created)] {
    auto living = weak.lock();
    check_state(living != nullptr, "The '", name,
                "' that was found in the strategy does not exist any more: keep it until the "
                "training ends, or add what is saved to a TrainingState by name.");
    return living;
  };
  Checkpointable result{
      .name = name,
      .save = [state] { return CheckpointableState{.tree = state()->save()}; },
      .restore = [state](const CheckpointableState& saved) { state()->restore(saved.tree); }};
  if (!created->name.empty()) result.missing = checkpoint::Missing::kSkip;
  return result;
}

[[noreturn]] void throw_already_exists(std::string_view what) {
  throw Error(ErrorCode::kAlreadyExists, "The training state already has '", what,
              "': use another name.");
}

}  // namespace

/// The number of replicas of each worker: another layout adds values in another order.
io::StateTree layout_of(const distribute::WorkerGroup& workers) {
  io::StateTree layout = io::StateTree::list();
  for (const int replicas : workers.layout.replicas) layout.push_back(replicas);
  return layout;
}

TrainingState::TrainingState(distribute::Strategy& strategy) : strategy_(strategy) {}
TrainingState::~TrainingState() = default;

void TrainingState::add_created() {
  has_added_created_ = true;
  for (const auto& model : strategy_.created_models()) add_variables(model->variables());
  {
    const auto scope = strategy_.scope();
    add_variables(variables::global_variables());
  }
  add_created_optimizers();
  const bool adds_iterators = std::ranges::none_of(
      checkpointables_,
      [](const Checkpointable& each) { return each.name.starts_with("iterator/"); });
  int iterators = 0;
  for (const auto& created : strategy_.created_states()->living()) {
    const bool is_iterator = created->name.empty();
    if (is_iterator && !adds_iterators) continue;
    const std::string name = is_iterator ? str_cat("iterator/", numbered("data", iterators++))
                                         : str_cat("metric/", created->name);
    if (has_name(checkpointables_, name)) continue;
    add_checked(checkpointable_of(name, created));
    metric_sums_.insert(metric_sums_.end(), created->variables.begin(), created->variables.end());
  }
}

void TrainingState::check_complete() const {
  if (!has_added_created_) return;
  for (const distribute::Optimizer& created : strategy_.created_optimizers()) {
    check_state(has_optimizer(created), "An optimizer (", created.state().rule().name(),
                ") was created in the strategy after the session or TrainingState, whose "
                "checkpoints would lack it and what it trains: create models and optimizers before "
                "the session, or add them to a TrainingState by name.");
  }
}

bool TrainingState::has_optimizer(const distribute::Optimizer& optimizer) const {
  return std::ranges::any_of(optimizers_, [&](const NamedOptimizer& each) {
    return &each.optimizer.state() == &optimizer.state();
  });
}

void TrainingState::add_created_optimizers() {
  for (const distribute::Optimizer& created : strategy_.created_optimizers()) {
    if (has_optimizer(created)) continue;
    const std::string rule(created.state().rule().name());
    int number = 0;
    while (has_name(optimizers_, numbered(rule, number))) ++number;
    add_optimizer(numbered(rule, number), created);
    if (created.global_step() && !counter_) count_by(*created.global_step());
  }
}

void TrainingState::add_variables(std::span<const Variable> variables) {
  for (const Variable& variable : variables) {
    const auto known =
        std::find_if(variables_.begin(), variables_.end(),
                     [&](const Variable& each) { return each.name() == variable.name(); });
    if (known == variables_.end()) {
      variables_.push_back(variable);
    } else if (!known->is_same(variable)) {
      throw Error(ErrorCode::kAlreadyExists, "The training state already has another variable '",
                  variable.name(), "'.");
    }
  }
}

void TrainingState::add_optimizer(const std::string& name, const distribute::Optimizer& optimizer) {
  check_name(name);
  const bool is_reserved = name == kCheckpointableTensors || name == kReplicaTensors;
  if (is_reserved || has_name(optimizers_, name)) throw_already_exists(str_cat("optimizer/", name));
  optimizers_.push_back({name, optimizer, nullptr});
}

void TrainingState::add_schedule(const std::string& optimizer, optim::SchedulePtr schedule) {
  check_argument(schedule != nullptr, "The schedule of optimizer '", optimizer, "' is null.");
  for (NamedOptimizer& each : optimizers_) {
    if (each.name != optimizer) continue;
    each.schedule = std::move(schedule);
    return;
  }
  throw Error(ErrorCode::kNotFound, "The training has no optimizer '", optimizer,
              "' for the schedule: add the optimizer first.");
}

void TrainingState::add_iterator_functions(const std::string& name,
                                           std::function<io::StateTree()> save,
                                           std::function<void(const io::StateTree&)> restore) {
  check_name(name);
  add_checked({.name = str_cat("iterator/", name),
               .save = [save = std::move(save)] { return CheckpointableState{.tree = save()}; },
               .restore = [restore = std::move(restore)](
                              const CheckpointableState& state) { restore(state.tree); }});
}

void TrainingState::add_metric(const metrics::Metric& metric) {
  check_name(metric.name());
  add_checked(
      {.name = str_cat("metric/", metric.name()),
       .save = [&metric] { return CheckpointableState{.tree = metric.save()}; },
       .restore = [&metric](const CheckpointableState& state) { metric.restore(state.tree); },
       .missing = checkpoint::Missing::kSkip});
  metric_sums_.insert(metric_sums_.end(), metric.variables().begin(), metric.variables().end());
}

void TrainingState::add_averages(const std::string& name,
                                 optim::ExponentialMovingAverage& averages) {
  check_name(name);
  add_checked(
      {.name = str_cat("averages/", name),
       .save = [&averages] { return CheckpointableState{.tree = {}, .tensors = averages.state()}; },
       .restore =
           [&averages](const CheckpointableState& state) { averages.restore(state.tensors); }});
  fetched_averages_.push_back(strategy_.fetch_averages(averages));
}

void TrainingState::add(Checkpointable checkpointable) {
  check_name(checkpointable.name);
  check_argument(checkpointable.save && checkpointable.restore, "Checkpointable '",
                 checkpointable.name, "' needs a save and a restore function.");
  checkpointable.name = str_cat("part/", checkpointable.name);
  add_checked(std::move(checkpointable));
}

void TrainingState::remove(const std::string& name) {
  std::erase_if(checkpointables_,
                [&](const Checkpointable& each) { return each.name == str_cat("part/", name); });
}

void TrainingState::add_checked(Checkpointable checkpointable) {
  if (has_name(checkpointables_, checkpointable.name)) throw_already_exists(checkpointable.name);
  checkpointables_.push_back(std::move(checkpointable));
}

std::int64_t TrainingState::global_step() const {
  if (const auto of_job = strategy_.global_step()) return *of_job;
  if (!counter_) return global_step_;
  for (const NamedOptimizer& each : optimizers_) {
    const auto& counted = each.optimizer.global_step();
    if (counted && counted->is_same(*counter_) && distribute::in_cross_replica_context())
      return each.optimizer.global_step_value();
  }
  return counter_->local().item<std::int64_t>();
}

void TrainingState::set_global_step(std::int64_t step) {
  check_argument(step >= 0, "The global step is ", step, "; it must be 0 or more.");
  global_step_ = step;
  set_counter(step);
  strategy_.set_global_step(step);
}

void TrainingState::set_counter(std::int64_t step) const {
  if (counter_) counter_->assign(at::full(counter_->shape(), step, at::kLong));
}

/// Other workers may have made updates since this one's last.
void TrainingState::follow_job() const {
  if (const auto of_job = strategy_.global_step()) set_counter(*of_job);
}

void TrainingState::store() {
  strategy_.store_state();
  follow_job();
}

void TrainingState::count_by(const Variable& global_step) {
  check_argument(global_step.dtype() == at::kLong && global_step.numel() == 1, "The global step '",
                 global_step.name(), "' must be one int64.");
  add_variables(std::span(&global_step, 1));
  counter_ = global_step;
}

void TrainingState::advance() {
  const auto was_skipped = [](const NamedOptimizer& each) { return each.optimizer.was_skipped(); };
  const bool all_skipped = !optimizers_.empty() && std::ranges::all_of(optimizers_, was_skipped);
  if (!counter_ && !all_skipped) ++global_step_;
}

void TrainingState::apply_schedules() const {
  for (const NamedOptimizer& each : optimizers_) {
    if (each.schedule) each.optimizer.set_learning_rate((*each.schedule)(global_step()));
  }
}

bool TrainingState::is_between_updates() const {
  return std::all_of(optimizers_.begin(), optimizers_.end(), [](const NamedOptimizer& each) {
    return each.optimizer.micro_batches() == 0;
  });
}

comm::Facts TrainingState::facts() const {
  comm::Facts facts = {{"number of variables", str_cat(variables_.size())}};
  for (const NamedOptimizer& each : optimizers_) {
    facts.push_back({"optimizer", each.name});
    facts.push_back(
        {"schedule", each.schedule ? io::to_json(each.schedule->config()).json : "none"});
  }
  for (const Checkpointable& each : checkpointables_)
    facts.push_back({"checkpointable", each.name});
  return facts;
}

// Variables that each replica writes separately: their aggregate does not contain each replica's
// value.
std::vector<Variable> TrainingState::per_replica_statistics() const {
  std::vector<Variable> statistics;
  for (const auto* from : {&variables_, &metric_sums_}) {
    for (const Variable& variable : *from) {
      if (variable.synchronization() == variables::Synchronization::kOnRead &&
          variable.num_components_in_all() > 1)
        statistics.push_back(variable);
    }
  }
  return statistics;
}

// By replica of all workers: a collective of theirs, for every variable.
std::vector<at::Tensor> TrainingState::components_of_all_replicas(const Variable& variable) const {
  std::vector<at::Tensor> own;
  for (int replica = 0; replica < variable.num_components(); ++replica)
    own.push_back(variable.component(replica).detach());
  if (!strategy_.has_worker_collectives()) return own;
  for (at::Tensor& component : own) component = component.to(own.front().device());
  return strategy_.gather_workers(at::stack(own)).unbind();
}

checkpoint::Contents TrainingState::contents() const {
  check_complete();
  strategy_.fetch_state();
  follow_job();
  checkpoint::Contents contents{.metrics = metric_values_};
  for (const Variable& variable : variables_) {
    const bool has_value = variable.synchronization() != variables::Synchronization::kOnRead ||
                           variable.aggregation() != variables::Aggregation::kNone;
    if (has_value) contents.variables.push_back(variable);
  }
  io::StateTree& state = contents.state;
  state["global_step"] = global_step();
  io::StateTree& strategy = state["strategy"];
  strategy["name"] = strategy_.name();
  strategy["replicas"] = strategy_.num_replicas_in_sync();
  strategy["seed"] = strategy_.seed();
  strategy["step"] = strategy_.step();
  strategy["numerics"] = std::string(device::to_string(strategy_.numerics()));
  if (strategy_.logical_replicas() > 0) {
    strategy["logical_replicas"] = strategy_.logical_replicas();
    strategy["arithmetic_fingerprint"] = strategy_.arithmetic_fingerprint();
  }
  if (strategy_.workers()) strategy["workers"] = layout_of(*strategy_.workers());
  io::StateTree& optimizers = state["optimizers"] = io::StateTree::dict();
  for (const NamedOptimizer& each : optimizers_) {
    optim::SavedOptimizer saved = each.optimizer.save(each.name);
    if (each.schedule) saved.state["schedule"] = each.schedule->config();
    optimizers[each.name] = std::move(saved.state);
    for (auto& [name, slot] : saved.slots) contents.tensors.push_back({name, slot});
  }
  io::StateTree& checkpointables = state["parts"] = io::StateTree::dict();
  for (const Checkpointable& checkpointable : checkpointables_) {
    CheckpointableState saved = checkpointable.save();
    checkpointables[checkpointable.name] = std::move(saved.tree);
    for (const auto& [name, tensor] : saved.tensors)
      contents.tensors.push_back(
          {checkpointable_tensor_prefix(checkpointable.name) + name, tensor});
  }
  for (const Variable& variable : per_replica_statistics()) {
    const std::vector<at::Tensor> components = components_of_all_replicas(variable);
    for (std::size_t replica = 0; replica < components.size(); ++replica) {
      contents.tensors.push_back(
          {replica_tensor_name(static_cast<int>(replica), variable.name()), components[replica]});
    }
  }
  contents.metadata["strategy"] = strategy_.name();
  contents.metadata["replicas"] = std::to_string(strategy_.num_replicas_in_sync());
  return contents;
}

}  // namespace brigade::train
