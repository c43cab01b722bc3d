#include "brigade/variables/partitioned_variable.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/graph.h"

namespace brigade::variables {
namespace {

using Names = std::vector<std::string>;
using Shape = std::vector<std::int64_t>;

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

Names names_of(const PartitionedVariable& variable) {
  Names names;
  for (const Variable& part : variable.parts()) names.push_back(part.name());
  return names;
}

Partitioner cutting(Shape counts) {
  return [counts = std::move(counts)](at::IntArrayRef, at::ScalarType) { return counts; };
}

class PartitionedVariables : public testing::Test {
 protected:
  Graph graph_;
  const base::AmbientScope<Graph> opened_{kGraphSlot, &graph_};
};

TEST_F(PartitionedVariables, HaveNamedPartsOfTheSizesOfTensorFlow) {
  const auto scope = variable_scope("s", {.partitioner = fixed_size_partitioner(3)});
  const PartitionedVariable p = get_partitioned_variable("p", {{10, 2}});
  EXPECT_EQ(p.name(), "s/p");
  EXPECT_EQ(names_of(p), (Names{"s/p/part_0", "s/p/part_1", "s/p/part_2"}));
  EXPECT_EQ(p.parts()[0].shape(), at::IntArrayRef({4, 2}));
  EXPECT_EQ(p.parts()[2].shape(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(p.shape(), (Shape{10, 2}));
  EXPECT_EQ(p.axis(), 0);
}

TEST_F(PartitionedVariables, HaveTheInitialValueOfTheWholeVariable) {
  const at::Tensor expected = get_variable("w", {{6, 4}}).read();
  for (const Shape& counts : {Shape{1, 1}, Shape{3, 1}, Shape{1, 4}}) {
    Graph graph;
    const auto opened = graph.as_default();
    const PartitionedVariable p =
        get_partitioned_variable("w", {{6, 4}}, {.partitioner = cutting(counts)});
    EXPECT_TRUE(p.value().equal(expected)) << at::IntArrayRef(counts);
  }
}

TEST_F(PartitionedVariables, SplitAGivenValue) {
  const PartitionedVariable p = get_partitioned_variable(
      "w", {},
      {.initializer = Initializer::constant_value(at::arange(5, at::kFloat)),
       .partitioner = fixed_size_partitioner(2)});
  EXPECT_TRUE(p.parts()[1].read().equal(at::arange(3, 5, at::kFloat)));
  EXPECT_TRUE(p.value().equal(at::arange(5, at::kFloat)));
}

TEST_F(PartitionedVariables, AreASingleVariableWithoutAPartitionerAndForScalars) {
  EXPECT_EQ(names_of(get_partitioned_variable("w", {{4}})), (Names{"w"}));
  EXPECT_EQ(names_of(get_partitioned_variable("s", {Shape{}},
                                              {.partitioner = fixed_size_partitioner(2)})),
            (Names{"s"}));
  EXPECT_EQ(
      names_of(get_partitioned_variable("one", {{4}}, {.partitioner = fixed_size_partitioner(1)})),
      (Names{"one/part_0"}));
}

TEST_F(PartitionedVariables, AreFoundWithoutThePartitioner) {
  const auto scope = variable_scope("s", {.reuse = Reuse::kAuto});
  const VariableOptions options = {.partitioner = cutting({1, 2})};
  const PartitionedVariable made = get_partitioned_variable("w", {{3, 5}}, options);
  for (const PartitionedVariable& found :
       {get_partitioned_variable("w", {{3, 5}}, options), get_partitioned_variable("w", {{3, 5}}),
        get_partitioned_variable("w")}) {
    EXPECT_EQ(names_of(found), names_of(made));
    EXPECT_EQ(found.axis(), 1);
    EXPECT_TRUE(found.parts()[1].component(0).is_same(made.parts()[1].component(0)));
  }
  EXPECT_EQ(code_of([] { get_variable("w", {{3, 5}}); }), ErrorCode::kFailedPrecondition);
}

TEST_F(PartitionedVariables, RefuseToBeSplitDifferently) {
  const auto scope = variable_scope("s", {.reuse = Reuse::kAuto});
  get_partitioned_variable("w", {{4, 6}}, {.partitioner = cutting({2, 1})});
  for (const Shape& counts : {Shape{4, 1}, Shape{1, 2}, Shape{1, 1}}) {
    EXPECT_EQ(code_of([&] {
                get_partitioned_variable("w", {{4, 6}}, {.partitioner = cutting(counts)});
              }),
              ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(code_of([] { get_partitioned_variable("w", {{4, 5}}); }), ErrorCode::kInvalidArgument);
  get_variable("whole", {{4}});
  EXPECT_EQ(code_of([] {
              get_partitioned_variable("whole", {{4}}, {.partitioner = fixed_size_partitioner(2)});
            }),
            ErrorCode::kInvalidArgument);
}

TEST_F(PartitionedVariables, RefuseInvalidPartitioners) {
  for (const Shape& counts : {Shape{2, 2}, Shape{2}, Shape{0, 1}}) {
    EXPECT_EQ(code_of([&] {
                get_partitioned_variable("w", {{4, 6}}, {.partitioner = cutting(counts)});
              }),
              ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(code_of([] {
              get_partitioned_variable("w", {}, {.partitioner = fixed_size_partitioner(2)});
            }),
            ErrorCode::kInvalidArgument);
}

TEST_F(PartitionedVariables, FollowTheScopesReuse) {
  const VariableOptions options = {.partitioner = fixed_size_partitioner(2)};
  get_partitioned_variable("w", {{4}}, options);
  EXPECT_EQ(code_of([&] { get_partitioned_variable("w", {{4}}, options); }),
            ErrorCode::kAlreadyExists);
  const auto scope = variable_scope("s", {.reuse = Reuse::kYes});
  EXPECT_EQ(code_of([&] { get_partitioned_variable("w", {{4}}, options); }), ErrorCode::kNotFound);
}

TEST_F(PartitionedVariables, SendTheGradientToTheirPartitions) {
  const PartitionedVariable p =
      get_partitioned_variable("w", {{4}}, {.partitioner = fixed_size_partitioner(2)});
  (p.value() * at::arange(4, at::kFloat)).sum().backward();
  EXPECT_TRUE(p.parts()[1].component(0).grad().equal(at::arange(2, 4, at::kFloat)));
  get_variable_scope().reuse_variables();
  EXPECT_TRUE(get_value("w", {{4}}).equal(p.value()));
}

}  // namespace
}  // namespace brigade::variables
