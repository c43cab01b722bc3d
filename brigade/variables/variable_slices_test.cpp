#include "brigade/variables/variable_slices.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "brigade/variables/get_variable.h"
#include "brigade/variables/variable_scope.h"

namespace brigade::variables {
namespace {

class VariableSlices : public testing::Test {
 protected:
  Graph graph_;
  const base::AmbientScope<Graph> opened_{kGraphSlot, &graph_};
};

/// 10 x 4 numbers, split along an axis.
PartitionedVariable numbers(std::int64_t parts, std::int64_t axis) {
  return get_partitioned_variable(
      "w", {},
      {.initializer = Initializer::constant_value(at::arange(40, at::kFloat).view({10, 4})),
       .partitioner = fixed_size_partitioner(parts, axis)});
}

TEST_F(VariableSlices, SayWhichPartOfTheWholeAPartitionIs) {
  const auto scope = variable_scope("s");
  const PartitionedVariable w = numbers(3, 0);
  EXPECT_EQ(w.parts()[0].slice(),
            (VariableSlice{.whole = "s/w", .shape = {10, 4}, .axis = 0, .offset = 0}));
  EXPECT_EQ(w.parts()[2].slice(),
            (VariableSlice{.whole = "s/w", .shape = {10, 4}, .axis = 0, .offset = 7}));
  EXPECT_FALSE(get_variable("plain", {{2}}).slice().has_value());
}

TEST_F(VariableSlices, JoinToTheWholeInTheOrderOfTheirOffsets) {
  const PartitionedVariable w = numbers(3, 1);
  const std::vector<Variable> shuffled = {w.parts()[2], get_variable("b", {{4}}), w.parts()[0],
                                          w.parts()[1]};
  const auto joined = joined_slices(shuffled);
  ASSERT_EQ(joined.size(), 1u);
  const std::vector<std::size_t>& indices = joined.at("w");
  EXPECT_EQ(indices, (std::vector<std::size_t>{2, 3, 0}));
  std::vector<at::Tensor> values;
  for (const std::size_t i : indices) values.push_back(shuffled[i].read());
  EXPECT_TRUE(join_slices(values, *w.parts().front().slice())
                  .equal(at::arange(40, at::kFloat).view({10, 4})));
}

TEST_F(VariableSlices, DoNotJoinIfAPartIsMissingOrTheNameIsTaken) {
  const PartitionedVariable w = numbers(3, 0);
  EXPECT_TRUE(joined_slices(std::span(w.parts()).subspan(1)).empty());
  EXPECT_TRUE(joined_slices(std::span(w.parts()).first(2)).empty());

  const Graph other;
  std::vector<Variable> with_namesake = w.parts();
  with_namesake.push_back(
      other.store().create({.name = "w", .initial = at::arange(3, at::kFloat)}));
  EXPECT_TRUE(joined_slices(with_namesake).empty());
}

TEST_F(VariableSlices, APartOfTheWholeIsWhatThePartitionHas) {
  const PartitionedVariable w = numbers(3, 0);
  const at::Tensor whole = at::arange(40, at::kFloat).view({10, 4});
  for (const Variable& part : w.parts())
    EXPECT_TRUE(part_of_whole(whole, *part.slice(), part.shape()[0]).equal(part.read()));
}

TEST_F(VariableSlices, AGetterThatRenamesAPartitionMakesItAVariableByItself) {
  const auto scope = variable_scope(
      "s", {.custom_getter = [](const VariableGetter& getter, const GetVariableRequest& request) {
        GetVariableRequest renamed = request;
        renamed.name = "other/" + request.name;
        return getter(renamed);
      }});
  const auto renamed = numbers(2, 0);
  for (const Variable& part : renamed.parts()) EXPECT_FALSE(part.slice().has_value());
}

}  // namespace
}  // namespace brigade::variables
