#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "brigade/optim/update_rule.h"
#include "brigade/variables/variable.h"

namespace brigade::optim {

/// Variables that are updated with separate rates: no decay on biases, a small rate for a
/// pretrained trunk, a frozen one. A variable belongs to the first group that matches its name; a
/// variable without a match has the rule's defaults.
struct ParameterGroup {
  /// Names to match, with `*` for any characters: "*.bias", "trunk.*".
  std::vector<std::string> names;
  std::optional<double> learning_rate;  ///< unset: the rule's
  std::optional<double> weight_decay;   ///< unset: the rule's
  /// The variables are not updated, and their gradients are not computed.
  bool frozen = false;
  /// Off: a rule that scales each variable's rate by its norm (`Lars`) does not do so here. Usual
  /// for biases and the scales of norms. Other rules ignore it.
  bool layer_adaptation = true;
};

/// The settings of one variable.
struct GroupedHyperparameters {
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
  bool frozen = false;
  bool layer_adaptation = true;
  bool operator==(const GroupedHyperparameters&) const = default;
};

/// The settings of each variable from its group. Throws kInvalidArgument for a group that matches
/// no variable (its patterns and the variables' names are listed) and for a negative rate or decay.
std::vector<GroupedHyperparameters> assign_groups(std::span<const variables::Variable> variables,
                                                  std::span<const ParameterGroup> groups);

}  // namespace brigade::optim
