#include "brigade/optim/optimizer_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/state_json.h"
#include "brigade/variables/memory_order.h"
#include "brigade/variables/variable_slices.h"

namespace brigade::optim {

using variables::Variable;

OptimizerState::OptimizerState(UpdateRulePtr rule, std::span<const Variable> variables,
                               std::span<const ParameterGroup> groups)
    : rule_(std::move(rule)), learning_rate_(rule_->defaults().learning_rate) {
  const at::NoGradGuard no_grad;
  for (const Variable& variable : variables) {
    if (variable.trainable()) variables_.push_back(variable);
  }
  check_argument(!variables_.empty(),
                 "An optimizer needs at least one trainable variable and got none: a module must "
                 "register its parameters and submodules (register_parameter, register_module).");
  check_whole_variables();
  for (const Variable& variable : variables_) add_storage(variable);
  const auto storage_index = [&](const Variable& v) {
    return std::find(storages_.begin(), storages_.end(), v.storage()) - storages_.begin();
  };
  // A variable without elements has the offset of the one after it.
  const auto position = [&](const Variable& v) {
    return std::tuple(storage_index(v), v.offset(), v.numel());
  };
  std::stable_sort(variables_.begin(), variables_.end(),
                   [&](const Variable& a, const Variable& b) { return position(a) < position(b); });
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    storage_of_.push_back(static_cast<std::size_t>(storage_index(variables_[i])));
    check_argument(i == 0 || !variables_[i].is_same(variables_[i - 1]), "Variable '",
                   variables_[i].name(), "' was given to the optimizer twice.");
  }
  groups_ = assign_groups(variables_, groups);
  steps_.assign(variables_.size(), 0);
  ranges_.resize(static_cast<std::size_t>(variables_.front().num_components()));
  whole_runs_.resize(ranges_.size());
  add_counters();
}

void OptimizerState::add_counters() {
  std::vector<std::optional<double>> own_rates;
  for (const GroupedHyperparameters& group : groups_) own_rates.push_back(group.learning_rate);
  const variables::VariableStorage& storage = *storages_.front();
  for (int master = 0; master < storage.masters(); ++master) {
    const c10::Device device = storage.master(master).device();
    auto& counters = counters_.emplace_back();
    if (!device.is_cpu()) counters.emplace(device, own_rates);
  }
}

void OptimizerState::check_whole_variables() const {
  if (!rule_->needs_whole_variables()) return;
  for (const Variable& variable : variables_) {
    if (!variable.slice() || variable.shape() == at::IntArrayRef(variable.slice()->shape)) continue;
    throw Error(ErrorCode::kInvalidArgument, "The rule ", rule_->name(),
                " needs the norms of whole variables, and '", variable.name(), "' is a part of '",
                variable.slice()->whole,
                "': make the variable without a partitioner, or use another rule.");
  }
}

void OptimizerState::add_storage(const Variable& variable) {
  const auto& storage = variable.storage();
  if (std::find(storages_.begin(), storages_.end(), storage) != storages_.end()) return;
  storages_.push_back(storage);
  auto& slots = slots_.emplace_back();
  for (const SlotSpec& spec : rule_->slots()) {
    auto& buffers = slots.emplace_back();
    for (int master = 0; master < storage->masters(); ++master)
      buffers.push_back(at::full_like(storage->master(master), spec.initial));
  }
}

void OptimizerState::set_learning_rate(double rate) {
  check_argument(rate >= 0, "The learning rate is ", rate, " and must be at least 0.");
  learning_rate_ = rate;
}

void OptimizerState::set_step(std::size_t variable, std::int64_t updates) {
  check_argument(updates >= 0, "The number of updates of '", variables_.at(variable).name(),
                 "' is ", updates, " and must be at least 0.");
  steps_[variable] = updates;
}

Hyperparameters OptimizerState::hyperparameters(std::size_t variable) const {
  return {.learning_rate = groups_[variable].learning_rate.value_or(learning_rate_),
          .weight_decay = groups_[variable].weight_decay.value_or(rule_->defaults().weight_decay),
          .layer_adaptation = groups_[variable].layer_adaptation};
}

// A variable of another optimizer may be between two of ours: then a run ends before it.
bool OptimizerState::continues(const UpdateRun& run, std::size_t variable) const {
  if (rule_->needs_whole_variables()) return false;
  const auto& storage = storages_[storage_of_[variable]];
  return run.last == variable && run.storage == storage_of_[variable] &&
         storage->next_offset(run.end) == variables_[variable].offset() &&
         run.step == steps_[variable] + 1 && groups_[run.first] == groups_[variable];
}

std::vector<UpdateRun> OptimizerState::runs(const std::vector<bool>& has_gradient) const {
  std::vector<UpdateRun> runs;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (!has_gradient[i] || is_frozen(i)) continue;
    const std::int64_t end = variables_[i].offset() + variables_[i].numel();
    if (!runs.empty() && continues(runs.back(), i)) {
      // The gap between two variables holds zeros in parameters, slots and gradients, and stays so.
      runs.back().end = end;
      runs.back().last = i + 1;
      continue;
    }
    runs.push_back({.storage = storage_of_[i],
                    .begin = variables_[i].offset(),
                    .end = end,
                    .first = i,
                    .last = i + 1,
                    .step = steps_[i] + 1,
                    .hyperparameters = hyperparameters(i)});
  }
  return runs;
}

const at::Tensor& OptimizerState::slot_buffer(std::size_t storage, std::size_t slot,
                                              int replica) const {
  const auto& buffers = slots_[storage][slot];
  return buffers[buffers.size() == 1 ? 0 : static_cast<std::size_t>(replica)];
}

std::vector<at::Tensor> OptimizerState::slot_views(std::size_t storage, int replica,
                                                   std::int64_t begin, std::int64_t end) const {
  std::vector<at::Tensor> views;
  for (std::size_t slot = 0; slot < rule_->slots().size(); ++slot) {
    views.push_back(slot_buffer(storage, slot, replica).narrow(0, begin, end - begin));
  }
  return views;
}

OptimizerState::Views* OptimizerState::KnownViews::find(std::size_t storage, std::int64_t begin,
                                                        std::int64_t end) {
  for (std::size_t tried = 0; tried < views.size(); ++tried) {
    // A step requests the same ranges in the same order as the previous one: the first guess is
    // nearly always right.
    Views& guess = views[next];
    next = next + 1 < views.size() ? next + 1 : 0;
    if (guess.storage == storage && guess.begin == begin && guess.end == end) return &guess;
  }
  return nullptr;
}

UpdateArguments& OptimizerState::KnownViews::add(Views made) {
  // Ranges change only when the set of variables with gradients does; old ones are dropped.
  constexpr std::size_t kMostKept = 4096;
  if (views.size() >= kMostKept) views.clear();
  next = 0;
  return views.emplace_back(std::move(made)).arguments;
}

UpdateArguments& OptimizerState::arguments_of(int replica, const UpdateRun& run, std::int64_t begin,
                                              std::int64_t end) {
  KnownViews& known = ranges_[static_cast<std::size_t>(replica)];
  if (Views* const found = known.find(run.storage, begin, end)) return found->arguments;
  Views views{.storage = run.storage, .begin = begin, .end = end, .arguments = {}};
  views.arguments.parameters = {
      storages_[run.storage]->master(replica).narrow(0, begin, end - begin)};
  for (at::Tensor& view : slot_views(run.storage, replica, begin, end))
    views.arguments.slots.push_back({view});
  return known.add(std::move(views));
}

UpdateArguments& OptimizerState::arguments_of_whole(int replica, const UpdateRun& run) {
  KnownViews& known = whole_runs_[static_cast<std::size_t>(replica)];
  // By variables: one without elements would not show in the elements.
  const auto first = static_cast<std::int64_t>(run.first);
  const auto last = static_cast<std::int64_t>(run.last);
  if (Views* const found = known.find(run.storage, first, last)) return found->arguments;
  Views views{.storage = run.storage, .begin = first, .end = last, .arguments = {}};
  views.arguments.slots.resize(rule_->slots().size());
  for (std::size_t i = run.first; i < run.last; ++i) add_variable(replica, i, views.arguments);
  return known.add(std::move(views));
}

/// In the shape of its gradients, so that these need no view in each step.
void OptimizerState::add_variable(int replica, std::size_t variable,
                                  UpdateArguments& arguments) const {
  const Variable& own = variables_[variable];
  const std::size_t storage = storage_of_[variable];
  const std::vector<std::int64_t> shape =
      variables::shape_in_memory(own.shape(), own.memory_format());
  const auto part_of = [&](const at::Tensor& flat) {
    return flat.narrow(0, own.offset(), own.numel()).view(shape);
  };
  arguments.parameters.push_back(part_of(storages_[storage]->master(replica)));
  for (std::size_t slot = 0; slot < arguments.slots.size(); ++slot)
    arguments.slots[slot].push_back(part_of(slot_buffer(storage, slot, replica)));
}

// The rules' kernels do not check these.
void OptimizerState::check_gradient(std::size_t variable, const at::Tensor& gradient,
                                    std::int64_t numel) const {
  const at::ScalarType dtype = variables_[variable].dtype();
  if (gradient.defined() && gradient.numel() == numel && gradient.scalar_type() == dtype) return;
  const std::string given =
      gradient.defined() ? base::str_cat(gradient.numel(), " of ", gradient.scalar_type()) : "none";
  throw Error(ErrorCode::kInvalidArgument, "The update of '", variables_[variable].name(),
              "' needs ", numel, " gradients of ", dtype, " and got ", given, ".");
}

void OptimizerState::apply(int replica, const UpdateRun& run, std::int64_t begin, std::int64_t end,
                           const at::Tensor& gradient) {
  check_gradient(run.first, gradient, end - begin);
  const bool is_part = begin != run.begin || end != run.end;
  if (is_part && rule_->needs_whole_variables()) {
    throw Error(ErrorCode::kInvalidArgument, "The rule ", rule_->name(),
                " needs whole variables, and an update of a part of '",
                variables_[run.first].name(),
                "' was made: this strategy's GradientSynchronizer must update whole runs.");
  }
  UpdateArguments& arguments = arguments_of(replica, run, begin, end);
  arguments.gradients.assign(1, gradient);
  arguments.step = run.step;
  read_on_device(replica, run, arguments);
  rule_->apply(arguments, run.hyperparameters);
  arguments.gradients.clear();
}

void OptimizerState::apply_whole(int replica, const UpdateRun& run,
                                 std::span<const at::Tensor> gradients) {
  UpdateArguments& arguments = arguments_of_whole(replica, run);
  arguments.gradients.clear();
  for (std::size_t i = run.first; i < run.last; ++i) {
    check_gradient(i, gradients[i], variables_[i].numel());
    const at::IntArrayRef shape = arguments.parameters[i - run.first].sizes();
    arguments.gradients.push_back(gradients[i].sizes() == shape ? gradients[i]
                                                                : gradients[i].view(shape));
  }
  arguments.step = run.step;
  read_on_device(replica, run, arguments);
  rule_->apply(arguments, run.hyperparameters);
  arguments.gradients.clear();
}

void OptimizerState::read_on_device(int replica, const UpdateRun& run, UpdateArguments& arguments) {
  std::optional<DeviceCounters>& own = counters(replica);
  if (!own) return;
  if (captured_) {
    arguments.on_device = own->count_captured(run.first, run.last);
    return captured_->runs.push_back(run);
  }
  own->follow(learning_rate_, steps_, run.first, run.last);
  arguments.on_device = own->count(run.first, run.last);
}

void OptimizerState::follow_host(int replica) {
  const at::NoGradGuard no_grad;
  if (auto& own = counters(replica)) own->follow(learning_rate_, steps_, 0, steps_.size());
}

CapturedUpdate OptimizerState::CaptureScope::update(int replica) const {
  check_state(state_.counters(replica).has_value(),
              "the parameters are on the CPU, where updates read the host's numbers");
  return *state_.captured_;
}

bool OptimizerState::can_replay(const CapturedUpdate& update) const {
  const auto is_same = [](const UpdateRun& a, const UpdateRun& b) {
    return a.storage == b.storage && a.begin == b.begin && a.end == b.end;
  };
  return std::ranges::equal(runs(update.has_gradient), update.runs, is_same);
}

void OptimizerState::count_replay(int replica, const CapturedUpdate& update) {
  for (const UpdateRun& run : update.runs) counters(replica)->record_replay(run.first, run.last);
  advance(update.has_gradient);
}

void OptimizerState::advance(const std::vector<bool>& has_gradient) {
  if (captured_) {
    captured_->has_gradient = has_gradient;
    return;
  }
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (has_gradient[i] && !is_frozen(i)) ++steps_[i];
  }
}

at::Tensor OptimizerState::slot(std::size_t variable, std::size_t slot, int replica) const {
  return variables_[variable].part_of(slot_buffer(storage_of_[variable], slot, replica));
}

using base::str_cat;

namespace {

/// The part of a rule's configuration that must match saved slots; the rate may differ.
io::StateTree fixed_part(const io::StateTree& config) {
  io::StateTree::Dict dict = config.as_dict();
  dict.erase("learning_rate");
  return dict;
}

void check_rule(std::string_view name, const io::StateTree& saved, const io::StateTree& own) {
  check_argument(fixed_part(saved) == fixed_part(own), "Optimizer '", name, "' is ",
                 io::to_json(own).json, " and was saved as ", io::to_json(saved).json,
                 ": its slots would have a different meaning. Train with the rule that they were "
                 "saved with, or start without them.");
}

std::optional<double> rate_of(const io::StateTree& config) {
  if (!config.has("learning_rate")) return std::nullopt;
  return config.as_double("learning_rate");
}

std::string form_of(at::ScalarType dtype, at::IntArrayRef shape) {
  return str_cat(at::toString(dtype), " ", shape);
}

}  // namespace

std::string OptimizerState::slot_name(std::string_view name, std::size_t slot,
                                      const std::string& of) const {
  return str_cat(name, "/", rule_->slots()[slot].name, "/", of);
}

/// That of the whole variable, if it was saved and its partition was not.
std::string OptimizerState::saved_name(const SavedOptimizer& saved, std::size_t variable) const {
  const Variable& own = variables_[variable];
  const io::StateTree& steps = saved.state.at("steps");
  const bool is_joined = own.slice() && !steps.has(own.name()) && steps.has(own.slice()->whole);
  return is_joined ? own.slice()->whole : own.name();
}

std::vector<std::int64_t> OptimizerState::saved_shape(std::size_t variable,
                                                      const std::string& saved_name) const {
  const Variable& own = variables_[variable];
  return saved_name == own.name() ? own.shape().vec() : own.slice()->shape;
}

at::Tensor OptimizerState::saved_part(std::size_t variable, const std::string& saved_name,
                                      const at::Tensor& saved) const {
  const Variable& own = variables_[variable];
  if (saved_name == own.name()) return saved;
  const auto axis = static_cast<std::size_t>(own.slice()->axis);
  return variables::part_of_whole(saved, *own.slice(), own.shape()[axis]);
}

void OptimizerState::join_partitions(std::string_view name, SavedOptimizer& saved) const {
  const auto wholes = variables::joined_slices(variables_);
  if (wholes.empty()) return;
  io::StateTree::Dict steps = saved.state.as_dict("steps");
  for (const auto& [whole, indices] : wholes) {
    for (std::size_t s = 0; s < rule_->slots().size(); ++s) {
      std::vector<at::Tensor> parts;
      for (const std::size_t i : indices) {
        parts.push_back(slot(i, s, 0));
        saved.slots.erase(slot_name(name, s, variables_[i].name()));
      }
      saved.slots.emplace(slot_name(name, s, whole),
                          variables::join_slices(parts, *variables_[indices.front()].slice()));
    }
    for (const std::size_t i : indices) steps.erase(variables_[i].name());
    steps[whole] = steps_[indices.front()];
  }
  saved.state["steps"] = std::move(steps);
}

SavedOptimizer OptimizerState::save(std::string_view name) const {
  SavedOptimizer saved;
  io::StateTree steps = io::StateTree::dict();
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    steps[variables_[i].name()] = steps_[i];
    for (std::size_t s = 0; s < rule_->slots().size(); ++s)
      saved.slots.emplace(slot_name(name, s, variables_[i].name()), slot(i, s, 0));
  }
  saved.state["rule"] = rule_->config();
  saved.state["learning_rate"] = learning_rate_;
  saved.state["steps"] = std::move(steps);
  join_partitions(name, saved);
  return saved;
}

std::vector<std::string> OptimizerState::check(std::string_view name, const SavedOptimizer& saved,
                                               MissingSlots missing) const {
  check_rule(name, saved.state.at("rule"), rule_->config());
  check_argument(saved.state.as_double("learning_rate") >= 0, "Optimizer '", name,
                 "' was saved with a negative learning rate.");
  std::vector<std::string> lacking;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const std::string variable = saved_name(saved, i);
    bool is_whole = saved.state.at("steps").has(variable);
    if (is_whole) {
      check_argument(saved.state.as_int64("steps", variable) >= 0, "Optimizer '", name,
                     "' was saved with a negative step of variable '", variable, "'.");
    }
    const std::vector<std::int64_t> shape = saved_shape(i, variable);
    for (std::size_t s = 0; s < rule_->slots().size(); ++s) {
      const auto found = saved.slots.find(slot_name(name, s, variable));
      is_whole = is_whole && found != saved.slots.end();
      if (found == saved.slots.end()) continue;
      const at::ScalarType dtype = slot(i, s, 0).scalar_type();
      if (found->second.sizes() != at::IntArrayRef(shape) || found->second.scalar_type() != dtype) {
        refuse("Slot '", found->first, "' is ", form_of(dtype, shape), " and was saved as ",
               form_of(found->second.scalar_type(), found->second.sizes()), ".");
      }
    }
    if (!is_whole) lacking.push_back(variables_[i].name());
  }
  if (missing == MissingSlots::kRefuse && !lacking.empty()) {
    throw Error(ErrorCode::kNotFound, "Optimizer '", name, "' has no saved state for variable '",
                lacking.front(), "'.");
  }
  return lacking;
}

std::vector<std::string> OptimizerState::restore(std::string_view name, const SavedOptimizer& saved,
                                                 MissingSlots missing) {
  std::vector<std::string> lacking = check(name, saved, missing);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (std::find(lacking.begin(), lacking.end(), variables_[i].name()) != lacking.end()) continue;
    const std::string variable = saved_name(saved, i);
    steps_[i] = saved.state.as_int64("steps", variable);
    const int masters = variables_[i].storage()->masters();
    for (std::size_t s = 0; s < rule_->slots().size(); ++s) {
      const at::Tensor part = saved_part(i, variable, saved.slots.at(slot_name(name, s, variable)));
      for (int master = 0; master < masters; ++master) slot(i, s, master).copy_(part);
    }
  }
  // If the program's rate has changed since, it applies; otherwise the saved rate does, so that a
  // schedule or a callback continues where it was.
  if (rate_of(saved.state.at("rule")) == rate_of(rule_->config()))
    learning_rate_ = saved.state.as_double("learning_rate");
  return lacking;
}

}  // namespace brigade::optim
