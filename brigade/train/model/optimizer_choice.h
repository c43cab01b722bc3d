#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "brigade/optim/schedule.h"
#include "brigade/optim/update_rule.h"

namespace brigade::train {

/// The optimizer of a `Model`: an update rule's options, such as `optim::Adam{.learning_rate =
/// 1e-3}`, or a name.
///
/// Thread-safety: a value.
class OptimizerChoice {
 public:
  /// "adam", "adamw" or "sgd" with Keras's defaults (so Adam's epsilon is 1e-7). Throws
  /// kInvalidArgument, with the nearest name and all names, for an unknown name.
  OptimizerChoice(const char* name) : OptimizerChoice(std::string(name)) {}
  OptimizerChoice(const std::string& name);
  OptimizerChoice(optim::UpdateRulePtr rule) : rule_(std::move(rule)) {}
  template <class Rule>
  requires requires(const Rule& rule) {
    { rule.rule() } -> std::convertible_to<optim::UpdateRulePtr>;
  }
  OptimizerChoice(const Rule& options) : rule_(options.rule()) {}

  const optim::UpdateRulePtr& rule() const { return rule_; }

 private:
  optim::UpdateRulePtr rule_;
};

std::vector<std::string> optimizer_names();

}  // namespace brigade::train
