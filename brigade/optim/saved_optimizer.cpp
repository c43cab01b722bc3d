#include "brigade/optim/saved_optimizer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"
#include "brigade/io/state_json.h"
#include "brigade/optim/optimizer_state.h"

namespace brigade::optim {

using base::str_cat;

namespace {

/// The part of a rule's configuration that must match saved slots; the rate may differ.
io::StateTree fixed_part(const io::StateTree& config) {
  io::StateTree::Dict dict = config.as_dict();
  dict.erase("learning_rate");
  return dict;
}

void check_rule(std::string_view name, const io::StateTree& saved, const io::StateTree& own) {
  check_argument(
      fixed_part(saved) == fixed_part(own),
      str_cat("Optimizer '", name, "' is ", io::to_json(own).json, " and was saved as ",
              io::to_json(saved).json,
              ": its slots would have a different meaning. Train with the rule that they "
              "were saved with, or start without them."));
}

std::optional<double> rate_of(const io::StateTree& config) {
  if (!config.has("learning_rate")) return std::nullopt;
  return config.as_double("learning_rate");
}

std::string form_of(const at::Tensor& tensor) {
  return str_cat(at::toString(tensor.scalar_type()), " ", tensor.sizes());
}

}  // namespace

std::string OptimizerState::slot_name(std::string_view name, std::size_t slot,
                                      std::size_t variable) const {
  return str_cat(name, "/", rule_->slots()[slot].name, "/", variables_[variable].name());
}

SavedOptimizer OptimizerState::save(std::string_view name) const {
  SavedOptimizer saved;
  io::StateTree steps = io::StateTree::dict();
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    steps[variables_[i].name()] = steps_[i];
    for (std::size_t s = 0; s < rule_->slots().size(); ++s)
      saved.slots.emplace(slot_name(name, s, i), slot(i, s, 0));
  }
  saved.state["rule"] = rule_->config();
  saved.state["learning_rate"] = learning_rate_;
  saved.state["steps"] = std::move(steps);
  return saved;
}

std::vector<std::string> OptimizerState::check(std::string_view name, const SavedOptimizer& saved,
                                               MissingSlots missing) const {
  check_rule(name, saved.state.at("rule"), rule_->config());
  check_argument(saved.state.as_double("learning_rate") >= 0,
                 str_cat("Optimizer '", name, "' was saved with a negative learning rate."));
  std::vector<std::string> lacking;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    bool is_whole = saved.state.at("steps").has(variables_[i].name());
    if (is_whole) {
      check_argument(saved.state.as_int64("steps", variables_[i].name()) >= 0,
                     str_cat("Optimizer '", name, "' was saved with a negative step of variable '",
                             variables_[i].name(), "'."));
    }
    for (std::size_t s = 0; s < rule_->slots().size(); ++s) {
      const auto found = saved.slots.find(slot_name(name, s, i));
      is_whole = is_whole && found != saved.slots.end();
      if (found == saved.slots.end()) continue;
      const at::Tensor own = slot(i, s, 0);
      check_argument(
          found->second.sizes() == own.sizes() && found->second.scalar_type() == own.scalar_type(),
          str_cat("Slot '", found->first, "' is ", form_of(own), " and was saved as ",
                  form_of(found->second), "."));
    }
    if (!is_whole) lacking.push_back(variables_[i].name());
  }
  if (missing == MissingSlots::kRefuse && !lacking.empty()) {
    throw Error(
        ErrorCode::kNotFound,
        str_cat("Optimizer '", name, "' has no saved state for variable '", lacking.front(), "'."));
  }
  return lacking;
}

std::vector<std::string> OptimizerState::restore(std::string_view name, const SavedOptimizer& saved,
                                                 MissingSlots missing) {
  std::vector<std::string> lacking = check(name, saved, missing);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (std::find(lacking.begin(), lacking.end(), variables_[i].name()) != lacking.end()) continue;
    steps_[i] = saved.state.as_int64("steps", variables_[i].name());
    const int masters = variables_[i].storage()->masters();
    for (std::size_t s = 0; s < rule_->slots().size(); ++s) {
      for (int master = 0; master < masters; ++master)
        slot(i, s, master).copy_(saved.slots.at(slot_name(name, s, i)));
    }
  }
  // If the program's rate has changed since, it applies; otherwise the saved rate does, so that a
  // schedule or a callback continues where it was.
  if (rate_of(saved.state.at("rule")) == rate_of(rule_->config()))
    learning_rate_ = saved.state.as_double("learning_rate");
  return lacking;
}

}  // namespace brigade::optim
