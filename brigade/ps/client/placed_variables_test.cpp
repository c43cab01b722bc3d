#include "brigade/ps/client/placed_variables.h"

#include <gtest/gtest.h>

#include "brigade/base/testing/error_code.h"
#include "brigade/ps/testing/small_job.h"

namespace brigade::ps {
namespace {

using base::testing::code_of;
using testing::small_model;
using testing::small_placement;
using Names = std::vector<std::string>;

TEST(PlacedVariables, DividesByServerInTheOrderOfThePlacement) {
  const PlacedVariables placed(small_placement(2), 2);
  EXPECT_EQ(placed.names_of_server(0), (Names{"weights", "count", "offset"}));
  EXPECT_EQ(placed.names_of_server(1), (Names{"bias", "scale"}));
  EXPECT_EQ(placed.find("scale"), 3u);
  EXPECT_EQ(placed.find("scales"), std::nullopt);

  const auto parts = placed.divide(small_model());
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].size(), 3u);
  EXPECT_EQ(parts[1].size(), 2u);
  EXPECT_EQ(parts[1][1].name, "scale");

  const std::vector<NamedState> states = {{.name = "scale", .state = {}}};
  EXPECT_TRUE(placed.divide(states)[0].empty());
  EXPECT_EQ(placed.divide(states)[1].size(), 1u);
}

TEST(PlacedVariables, AServerMayHaveNoVariables) {
  const PlacedVariables placed(small_placement(7), 7);
  EXPECT_TRUE(placed.names_of_server(6).empty());
  EXPECT_TRUE(placed.divide(small_model())[5].empty());
}

TEST(PlacedVariables, RefusesWhatIsNotPlaced) {
  const PlacedVariables placed(small_placement(2), 2);
  auto model = small_model();
  model[0].name = "other";
  EXPECT_EQ(code_of([&] { placed.divide(model); }), ErrorCode::kInvalidArgument);
  model = small_model();
  model[0].value = at::Tensor();
  EXPECT_EQ(code_of([&] { placed.divide(model); }), ErrorCode::kInvalidArgument);
  const std::vector<NamedState> states = {{.name = "other", .state = {}}};
  EXPECT_EQ(code_of([&] { placed.divide(states); }), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { PlacedVariables(small_placement(3), 2); }), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::ps
