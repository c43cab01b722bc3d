#include "apps/brigade/optimizer_flags.h"

#include <CLI/CLI.hpp>

#include "apps/brigade/exit_code.h"
#include "brigade/base/strings.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"

namespace brigade::command {
namespace {

// The flags that are set replace the rule's defaults.
template <class Rule>
optim::UpdateRulePtr with_rates(Rule rule, const OptimizerFlags& flags) {
  if (flags.learning_rate) rule.learning_rate = *flags.learning_rate;
  if (flags.weight_decay) rule.weight_decay = *flags.weight_decay;
  return rule.rule();
}

optim::UpdateRulePtr chosen_rule(const OptimizerFlags& flags) {
  if (flags.optimizer == "sgd") {
    return with_rates(optim::Sgd{.momentum = flags.momentum.value_or(0.0)}, flags);
  }
  if (flags.optimizer == "adamw") return with_rates(optim::AdamW{}, flags);
  return with_rates(optim::Adam{}, flags);
}

}  // namespace

void OptimizerFlags::add_to(CLI::App& app) {
  app.add_option("--optimizer", optimizer, "adam, adamw, sgd")
      ->capture_default_str()
      ->group("Optimizer");
  app.add_option("--learning-rate", learning_rate, "Default: adam and adamw 0.001, sgd 0.01")
      ->group("Optimizer");
  app.add_option("--momentum", momentum, "sgd only; default 0")->group("Optimizer");
  app.add_option("--weight-decay", weight_decay, "Default: adam and sgd 0, adamw 0.01")
      ->group("Optimizer");
}

optim::UpdateRulePtr OptimizerFlags::rule() const {
  check_choice("optimizer", optimizer, {"adam", "adamw", "sgd"});
  if (momentum && optimizer != "sgd") {
    throw UsageError(base::str_cat("--momentum is for sgd; ", optimizer, " has its own"));
  }
  return set_up([&] { return chosen_rule(*this); });
}

}  // namespace brigade::command
