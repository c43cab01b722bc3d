#include "brigade/models/testing/pattern_weights.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace brigade::models {
namespace {

void expect_values(const at::Tensor& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.numel(), static_cast<std::int64_t>(wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found.flatten()[static_cast<std::int64_t>(i)].item<double>(), wanted[i]) << i;
  }
}

// The numbers are those of tests/parity/pattern_weights.py.
TEST(PatternWeights, AreThoseOfThePythonScripts) {
  expect_values(pattern_weights("conv1.weight", {2, 3, 1, 1}),
                {0.127491295337677, 0.6934221386909485, -1.3493810892105103, 0.6680683493614197,
                 -0.3695334792137146, 1.3131624460220337});
  expect_values(pattern_values("images", {3}),
                {-0.6310509443283081, -0.9362484812736511, -0.7815342545509338});
  expect_values(pattern_weights("bn.running_var", {2}), {1.1808295249938965, 0.9320007562637329});
  expect_values(pattern_weights("bn.weight", {2}), {1.0158499479293823, 0.9692946076393127});
  expect_values(pattern_weights("a/beta", {2}), {-0.08052714914083481, -0.029939506202936172});
  const auto summary = summary_of("x", pattern_values("x", {2, 2}));
  EXPECT_DOUBLE_EQ(summary.sum, 0.9623361825942993);
  EXPECT_DOUBLE_EQ(summary.squares, 1.2506507686945767);
  EXPECT_DOUBLE_EQ(summary.probe, 0.15676401597584544);
}

}  // namespace
}  // namespace brigade::models
