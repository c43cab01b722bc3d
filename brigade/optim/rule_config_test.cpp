#include "brigade/optim/rule_config.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/optim/adagrad.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/lars.h"
#include "brigade/optim/rms_prop.h"
#include "brigade/optim/sgd.h"

namespace brigade::optim {
namespace {

TEST(RuleConfig, EveryRuleIsMadeAnewFromItsConfiguration) {
  const std::vector<UpdateRulePtr> rules = {
      Sgd{.learning_rate = 0.3}.rule(),
      Sgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true}.rule(),
      Adam{.learning_rate = 2e-3, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-7}.rule(),
      AdamW{.weight_decay = 0.05}.rule(),
      Adagrad{.learning_rate_decay = 0.1, .initial_accumulator_value = 0.1, .epsilon = 1e-7}.rule(),
      Lars{.learning_rate = 8, .momentum = 0.8, .trust_coefficient = 0.01, .epsilon = 1e-8}.rule(),
      RmsProp{.momentum = 0.9, .epsilon = 1.0, .centered = true}.rule(),
      RmsProp{.decay = 0.99, .initial_mean_square = 0, .form = RmsPropForm::kPyTorch}.rule()};
  for (const UpdateRulePtr& rule : rules) {
    const UpdateRulePtr copy = rule_from_config(rule->config());
    EXPECT_EQ(copy->name(), rule->name());
    EXPECT_EQ(copy->config(), rule->config());
    EXPECT_EQ(copy->slots().size(), rule->slots().size());
    EXPECT_EQ(copy->defaults().learning_rate, rule->defaults().learning_rate);
  }
}

TEST(RuleConfig, RejectsWhatNoRuleHas) {
  const io::StateTree good = Sgd{}.rule()->config();
  const auto changed = [&](auto change) {
    io::StateTree config = good;
    change(config);
    return config;
  };
  EXPECT_THROW(rule_from_config(io::StateTree()), Error);
  EXPECT_THROW(rule_from_config(changed([](auto& c) { c["name"] = "sgdd"; })), Error);
  EXPECT_THROW(rule_from_config(changed([](auto& c) { c["momentum"] = 2.0; })), Error);
  EXPECT_THROW(rule_from_config(changed([](auto& c) { c["momentum"] = "0.9"; })), Error);
  EXPECT_THROW(rule_from_config(changed([](auto& c) { c["dampening"] = 0.1; })), Error)
      << "a field that would be lost";
  io::StateTree form = RmsProp{}.rule()->config();
  form["form"] = "keras";
  EXPECT_THROW(rule_from_config(form), Error);
  io::StateTree missing = io::StateTree::dict();
  missing["name"] = "sgd";
  EXPECT_THROW(rule_from_config(missing), Error);
}

}  // namespace
}  // namespace brigade::optim
