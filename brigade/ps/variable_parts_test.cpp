#include "brigade/ps/variable_parts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/comm/local/row_sums.h"
#include "brigade/ps/client/row_copies.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/variable_store.h"

namespace brigade::ps {
namespace {

using variables::Variable;

/// A matrix, a vector and a scalar.
class VariableParts : public ::testing::Test {
 protected:
  variables::VariableStore store_{{c10::Device(c10::kCPU)}, variables::StorageSharing::kOneStorage};
  const std::vector<Variable> variables_ = {
      store_.create({.name = "w", .initial = at::arange(20, at::kFloat).view({5, 4})}),
      store_.create({.name = "b", .initial = at::arange(3, at::kFloat)}),
      store_.create({.name = "s", .initial = at::arange(1, at::kFloat).squeeze()})};
};

std::vector<std::string> part_names(const std::vector<VariablePart>& parts) {
  std::vector<std::string> names;
  for (const VariablePart& part : parts) names.push_back(part.name);
  return names;
}

TEST_F(VariableParts, WithoutAPartitionerAreTheVariables) {
  const auto parts = parts_of(variables_, {});
  EXPECT_EQ(part_names(parts), (std::vector<std::string>{"w", "b", "s"}));
  for (const VariablePart& part : parts) {
    const at::Tensor value = variables_[part.variable].read();
    EXPECT_TRUE(part.of(value).is_same(value));
    EXPECT_TRUE(part.is_first());
    EXPECT_EQ(at::IntArrayRef(part.shape), value.sizes());
  }
}

TEST_F(VariableParts, DivideAllButScalars) {
  const auto parts = parts_of(variables_, variables::fixed_size_partitioner(2));
  EXPECT_EQ(part_names(parts),
            (std::vector<std::string>{"w/part_0", "w/part_1", "b/part_0", "b/part_1", "s"}));
  EXPECT_EQ(parts[0].shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(parts[1].shape, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(parts[1].begin, 3);
  EXPECT_TRUE(parts[0].is_first());
  EXPECT_FALSE(parts[1].is_first());
  const at::Tensor w = variables_[0].read();
  EXPECT_TRUE(parts[1].of(w).equal(w.slice(0, 3)));
  EXPECT_FALSE(parts[1].of(at::Tensor()).defined());
}

TEST_F(VariableParts, MayBeAlongAnotherAxisOrOfLargeVariablesOnly) {
  const variables::Partitioner columns = [](at::IntArrayRef shape, at::ScalarType) {
    return shape.size() == 2 ? std::vector<std::int64_t>{1, 4} : std::vector<std::int64_t>{1};
  };
  const auto parts = parts_of(variables_, columns);
  ASSERT_EQ(parts.size(), 6u);
  EXPECT_EQ(parts[4].name, "b") << "one part has the variable's name";
  const at::Tensor w = variables_[0].read();
  EXPECT_TRUE(parts[2].of(w).equal(w.slice(1, 2, 3)));

  const auto large = parts_of(
      variables_, variables::min_max_variable_partitioner({.max_parts = 3, .min_part_bytes = 16}));
  EXPECT_EQ(part_names(large),
            (std::vector<std::string>{"w/part_0", "w/part_1", "w/part_2", "b", "s"}));
}

at::Tensor numbers_of(std::vector<std::int64_t> values) {
  return at::tensor(values, at::kLong);
}

TEST_F(VariableParts, HaveTheirRowsOfAGradientOfRows) {
  const at::Tensor values = at::arange(12, at::kFloat).view({3, 4});
  const at::Tensor gradient =
      comm::to_sparse({.indices = numbers_of({0, 3, 4}), .values = values}, {5, 4});
  const auto halves = parts_of(variables_, variables::fixed_size_partitioner(2));
  for (const std::size_t i : {0u, 1u}) {
    const at::Tensor part = rows_of_part(halves[i], gradient);
    ASSERT_TRUE(comm::has_rows(part) && part.is_coalesced());
    EXPECT_TRUE(part.to_dense().equal(halves[i].of(gradient.to_dense())));
  }
  EXPECT_TRUE(comm::rows_of(rows_of_part(halves[1], gradient)).indices.equal(numbers_of({0, 1})));

  const at::Tensor first_row =
      comm::to_sparse({.indices = numbers_of({0}), .values = values.narrow(0, 0, 1)}, {5, 4});
  EXPECT_EQ(comm::rows_of(rows_of_part(halves[1], first_row)).values.sizes(),
            at::IntArrayRef({0, 4}));

  const variables::Partitioner columns = [](at::IntArrayRef shape, at::ScalarType) {
    return shape.size() == 2 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{1};
  };
  const auto pieces = parts_of(variables_, columns);
  EXPECT_TRUE(
      rows_of_part(pieces[1], gradient).to_dense().equal(pieces[1].of(gradient.to_dense())));
}

TEST_F(VariableParts, PartitionsOfTheProgramAreNotDividedAgain) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  const auto partitioned = variables::get_partitioned_variable(
      "p", {{6, 2}}, {.partitioner = variables::fixed_size_partitioner(2)});
  EXPECT_EQ(part_names(parts_of(partitioned.parts(), variables::fixed_size_partitioner(3))),
            (std::vector<std::string>{"p/part_0", "p/part_1"}));
}

TEST_F(VariableParts, AnAnswerThatMakesNoSenseIsRefusedNamingTheVariable) {
  const variables::Partitioner both = [](at::IntArrayRef shape, at::ScalarType) {
    return std::vector<std::int64_t>(shape.size(), 2);
  };
  try {
    parts_of(variables_, both);
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("'w'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace brigade::ps
