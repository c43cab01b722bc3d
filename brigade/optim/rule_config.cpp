#include "brigade/optim/rule_config.h"

#include <string>

#include "brigade/base/error.h"
#include "brigade/base/printable.h"
#include "brigade/io/state_json.h"
#include "brigade/optim/adagrad.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/lars.h"
#include "brigade/optim/rms_prop.h"
#include "brigade/optim/sgd.h"

namespace brigade::optim {

namespace {

template <class Options>
UpdateRulePtr adam_rule(const io::StateTree& config) {
  return Options{.learning_rate = config.as_double("learning_rate"),
                 .beta1 = config.as_double("beta1"),
                 .beta2 = config.as_double("beta2"),
                 .epsilon = config.as_double("epsilon"),
                 .weight_decay = config.as_double("weight_decay")}
      .rule();
}

UpdateRulePtr sgd_rule(const io::StateTree& config) {
  return Sgd{.learning_rate = config.as_double("learning_rate"),
             .momentum = config.as_double("momentum"),
             .weight_decay = config.as_double("weight_decay"),
             .nesterov = config.as_bool("nesterov")}
      .rule();
}

UpdateRulePtr adagrad_rule(const io::StateTree& config) {
  return Adagrad{.learning_rate = config.as_double("learning_rate"),
                 .learning_rate_decay = config.as_double("learning_rate_decay"),
                 .weight_decay = config.as_double("weight_decay"),
                 .initial_accumulator_value = config.as_double("initial_accumulator_value"),
                 .epsilon = config.as_double("epsilon")}
      .rule();
}

UpdateRulePtr lars_rule(const io::StateTree& config) {
  return Lars{.learning_rate = config.as_double("learning_rate"),
              .momentum = config.as_double("momentum"),
              .weight_decay = config.as_double("weight_decay"),
              .trust_coefficient = config.as_double("trust_coefficient"),
              .epsilon = config.as_double("epsilon")}
      .rule();
}

RmsPropForm rms_prop_form(const std::string& name) {
  for (const RmsPropForm form : {RmsPropForm::kTensorFlow, RmsPropForm::kPyTorch}) {
    if (to_string(form) == name) return form;
  }
  throw Error(ErrorCode::kInvalidArgument, "There is no form of rmsprop ", base::quoted(name),
              ": the forms are tensorflow and pytorch.");
}

UpdateRulePtr rms_prop_rule(const io::StateTree& config) {
  return RmsProp{.learning_rate = config.as_double("learning_rate"),
                 .decay = config.as_double("decay"),
                 .momentum = config.as_double("momentum"),
                 .epsilon = config.as_double("epsilon"),
                 .weight_decay = config.as_double("weight_decay"),
                 .initial_mean_square = config.as_double("initial_mean_square"),
                 .centered = config.as_bool("centered"),
                 .form = rms_prop_form(config.as_string("form"))}
      .rule();
}

UpdateRulePtr rule_of(const io::StateTree& config) {
  const std::string& name = config.as_string("name");
  if (name == "sgd") return sgd_rule(config);
  if (name == "adam") return adam_rule<Adam>(config);
  if (name == "adamw") return adam_rule<AdamW>(config);
  if (name == "adagrad") return adagrad_rule(config);
  if (name == "lars") return lars_rule(config);
  if (name == "rmsprop") return rms_prop_rule(config);
  throw Error(ErrorCode::kInvalidArgument, "There is no update rule ", base::quoted(name),
              ": the rules are sgd, adam, adamw, adagrad, lars and rmsprop.");
}

}  // namespace

UpdateRulePtr rule_from_config(const io::StateTree& config) {
  UpdateRulePtr rule = rule_of(config);
  check_argument(rule->config() == config, "The configuration of an update rule has fields that ",
                 rule->name(), " does not have: got ", io::to_json(config).json,
                 ", and its fields are ", io::to_json(rule->config()).json, ".");
  return rule;
}

}  // namespace brigade::optim
