#include "brigade/variables/variable_lists.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/comm/replica.h"
#include "brigade/variables/collections.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/graph.h"

namespace brigade::variables {
namespace {

using Names = std::vector<std::string>;

Names names_of(const std::vector<Variable>& variables) {
  Names names;
  for (const Variable& variable : variables) names.push_back(variable.name());
  return names;
}

class VariableLists : public testing::Test {
 protected:
  Graph graph_;
  const base::AmbientScope<Graph> opened_{kGraphSlot, &graph_};
};

TEST_F(VariableLists, AreInTheOrderOfCreationAndByPrefix) {
  for (const char* name : {"z/w", "a/w", "z/b", "zz/w"}) get_variable(name, {{1}});
  EXPECT_EQ(names_of(global_variables()), (Names{"z/w", "a/w", "z/b", "zz/w"}));
  EXPECT_EQ(names_of(global_variables("z/")), (Names{"z/w", "z/b"}));
  EXPECT_EQ(names_of(trainable_variables("z")), (Names{"z/w", "z/b", "zz/w"}));
  EXPECT_TRUE(get_variables("nothing").empty());
}

TEST_F(VariableLists, SelectVariablesToRestore) {
  for (const char* name : {"Net/Conv/w", "Net/Logits/w", "Net/Logits/b", "Other/w"}) {
    get_variable(name, {{1}});
  }
  get_variable("count", {{1}}, {.collections = Names{kLocalVariables}});
  const Names include = {"Net", "Net/Logits"};
  const Names exclude = {"Net/Logits"};
  EXPECT_EQ(get_variables_to_restore().size(), 4U);
  EXPECT_EQ(names_of(get_variables_to_restore(include)),
            (Names{"Net/Conv/w", "Net/Logits/w", "Net/Logits/b"}));
  EXPECT_EQ(names_of(get_variables_to_restore(include, exclude)), (Names{"Net/Conv/w"}));
  EXPECT_EQ(names_of(get_variables_to_restore({}, exclude)), (Names{"Net/Conv/w", "Other/w"}));
}

TEST_F(VariableLists, HaveOneRegularizationLossPerVariable) {
  const Regularizer sum = [](const at::Tensor& value) { return value.sum(); };
  for (int tower = 0; tower < 2; ++tower) {
    const auto root =
        variable_scope(get_variable_scope(), {.reuse = tower > 0 ? Reuse::kYes : Reuse::kInherit});
    const auto scope = variable_scope("fc", {.regularizer = sum});
    get_variable("w", {{3}}, {.initializer = ones_initializer()});
  }
  const auto reusing = variable_scope("fc", {.reuse = Reuse::kAuto});
  get_variable("plain", {{3}});
  get_variable("plain", {{3}}, {.regularizer = sum});  // too late: only creation counts
  const std::vector<at::Tensor> losses = get_regularization_losses();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].item<float>(), 3.0F);
  losses[0].backward();
  EXPECT_EQ(get_variable("w").component(0).grad().sum().item<float>(), 3.0F);
  EXPECT_TRUE(get_regularization_losses("conv").empty());
}

TEST_F(VariableLists, LeaveOutRegularizersWithoutAValue) {
  get_variable("w", {{3}}, {.regularizer = [](const at::Tensor&) { return at::Tensor(); }});
  EXPECT_TRUE(get_regularization_losses().empty());
}

TEST_F(VariableLists, HaveOneGlobalStep) {
  EXPECT_FALSE(get_global_step());
  const auto scope = variable_scope("s");
  const Variable step = get_or_create_global_step();
  EXPECT_EQ(step.name(), "global_step");
  EXPECT_EQ(step.dtype(), at::kLong);
  EXPECT_EQ(step.read().item<std::int64_t>(), 0);
  EXPECT_FALSE(step.trainable());
  EXPECT_TRUE(get_or_create_global_step().component(0).is_same(step.component(0)));
  EXPECT_EQ(names_of(global_variables()), (Names{"global_step"}));
  EXPECT_TRUE(get_global_step());
  EXPECT_TRUE(trainable_variables().empty());
}

TEST_F(VariableLists, MakeNoGlobalStepInsideAReplica) {
  const comm::Replica replica;
  const base::AmbientScope<const comm::Replica> replica_scope(comm::kReplicaSlot, &replica);
  try {
    get_or_create_global_step();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

}  // namespace
}  // namespace brigade::variables
