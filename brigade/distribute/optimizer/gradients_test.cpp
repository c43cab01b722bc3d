#include "brigade/distribute/optimizer/gradients.h"

#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {
namespace {

TEST(Gradients, AreFoundByIndexAndByName) {
  const std::vector<variables::Variable> variables = {
      variables::make_variable({.name = "a", .initial = at::zeros({1})}),
      variables::make_variable({.name = "b", .initial = at::zeros({1})})};
  Gradients gradients(variables, {at::full({1}, 1.0), at::full({1}, 2.0)}, GradientState::kLocal,
                      7);
  EXPECT_EQ(gradients.size(), 2u);
  EXPECT_EQ(gradients.step(), 7u);
  EXPECT_EQ(gradients.state(), GradientState::kLocal);
  EXPECT_EQ(gradients.variable(1).name(), "b");
  EXPECT_TRUE(gradients["b"].is_same(gradients[1]));
  gradients["a"] = at::Tensor();
  EXPECT_FALSE(gradients.values()[0].defined());
  const Error error = error_from([&] { gradients["c"]; });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_TRUE(mentions(error, "a, b")) << error.what();
}

}  // namespace
}  // namespace brigade::distribute
