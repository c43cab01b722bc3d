#include "brigade/optim/parameter_group.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/variables/variable_store.h"

namespace brigade::optim {
namespace {

std::vector<variables::Variable> variables_named(const std::vector<std::string>& names) {
  std::vector<variables::Variable> made;
  for (const std::string& name : names)
    made.push_back(variables::make_variable({.name = name, .initial = at::zeros({1})}));
  return made;
}

const std::vector<std::string> kNames = {"trunk.weight", "trunk.bias", "head.weight", "head.bias"};

TEST(ParameterGroup, TheFirstMatchingGroupApplies) {
  const auto variables = variables_named(kNames);
  const std::vector<ParameterGroup> groups = {
      {.names = {"trunk.*"}, .frozen = true},
      {.names = {"*.bias"}, .learning_rate = 0.5, .weight_decay = 0.0}};
  const auto assigned = assign_groups(variables, groups);
  EXPECT_TRUE(assigned[0].frozen);
  EXPECT_TRUE(assigned[1].frozen);
  EXPECT_FALSE(assigned[1].learning_rate.has_value());
  EXPECT_EQ(assigned[2], GroupedHyperparameters{});
  EXPECT_EQ(assigned[3].learning_rate, 0.5);
  EXPECT_EQ(assigned[3].weight_decay, 0.0);
}

TEST(ParameterGroup, WithoutGroupsAllHaveTheRulesDefaults) {
  for (const auto& assigned : assign_groups(variables_named(kNames), {}))
    EXPECT_EQ(assigned, GroupedHyperparameters{});
}

TEST(ParameterGroup, AGroupWithoutAMatchIsRefusedWithTheNames) {
  const auto variables = variables_named(kNames);
  const std::vector<ParameterGroup> groups = {{.names = {"tail.*"}}};
  try {
    assign_groups(variables, groups);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(text.find("tail.*"), std::string::npos) << text;
    EXPECT_NE(text.find("head.bias"), std::string::npos) << text;
  }
}

TEST(ParameterGroup, NegativeRatesAreRefused) {
  const auto variables = variables_named(kNames);
  const std::vector<ParameterGroup> rate = {{.names = {"*"}, .learning_rate = -1.0}};
  const std::vector<ParameterGroup> decay = {{.names = {"*"}, .weight_decay = -1.0}};
  EXPECT_THROW(assign_groups(variables, rate), Error);
  EXPECT_THROW(assign_groups(variables, decay), Error);
}

}  // namespace
}  // namespace brigade::optim
