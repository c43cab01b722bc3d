#pragma once

#include "brigade/io/state_tree.h"
#include "brigade/optim/update_rule.h"

namespace brigade::optim {

/// The update rule with this configuration: the inverse of `UpdateRule::config`. With it a process
/// makes the rule that another process chose, such as a parameter server the chief's. Throws
/// kInvalidArgument for an unknown rule, naming those that exist; for a missing or unknown field;
/// and for values that the rule does not allow.
UpdateRulePtr rule_from_config(const io::StateTree& config);

}  // namespace brigade::optim
