#include "brigade/train/graph/operation_graph.h"

#include <gtest/gtest.h>

namespace brigade::train {
namespace {

const int kWeight = 0;
const GraphLeaves kLeaves = {{&kWeight, {.node = "first/weight", .layer = "first"}}};
const OperationInput kReadsWeight = {.leaf = &kWeight, .leaf_elements = 12};

OperationNode operation(const char* kind, summary::Shape shape,
                        std::vector<OperationInput> inputs) {
  return {.kind = kind, .output_shapes = {std::move(shape)}, .inputs = std::move(inputs)};
}

TEST(OperationScopes, TransformedWeightsBelongToTheirLayer) {
  OperationScopes scopes(kLeaves);
  EXPECT_EQ(scopes.find(operation("T", {3, 4}, {kReadsWeight})).layer, "first");
  const auto product = scopes.find(operation("Mm", {5, 4}, {{}, {.operation = 0}}));
  EXPECT_EQ(product.layer, "first");
  EXPECT_TRUE(product.reads_inputs);
  const auto relu = scopes.find(operation("Relu", {5, 4}, {{.operation = 1}}));
  EXPECT_EQ(relu.layer, "");
  EXPECT_FALSE(relu.reads_inputs);
}

TEST(OperationScopes, AWeightPenaltyBelongsToTheLayerButNotTheTotalLoss) {
  OperationScopes scopes(kLeaves);
  EXPECT_EQ(scopes.find(operation("Pow", {4, 3}, {kReadsWeight})).layer, "first");
  EXPECT_EQ(scopes.find(operation("Sum", {}, {{.operation = 0}})).layer, "first");
  const auto scaled = scopes.find(operation("Mul", {}, {{.operation = 1}, {}}));
  EXPECT_EQ(scaled.layer, "first");
  EXPECT_FALSE(scaled.reads_inputs);
  scopes.find(operation("NllLoss", {}, {{}}));
  EXPECT_EQ(scopes.find(operation("Add", {}, {{.operation = 3}, {.operation = 2}})).layer, "");
}

}  // namespace
}  // namespace brigade::train
