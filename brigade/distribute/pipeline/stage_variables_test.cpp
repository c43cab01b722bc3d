#include "brigade/distribute/pipeline/stage_variables.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/variables/variable_store.h"

namespace brigade::distribute {
namespace {

/// Ten variables, more than a byte has bits.
class StageVariablesOfTen : public ::testing::Test {
 protected:
  StageVariablesOfTen() {
    for (int i = 0; i < 10; ++i)
      all.push_back(
          store.create({.name = "v" + std::to_string(i), .initial = at::full({2, i}, 1.0)}));
    trained.set_source([this] { return all; });
    trained.begin_step();
  }
  const at::Tensor& value(std::size_t number) const { return all[number].component(0); }

  variables::VariableStore store{variables::VariableStoreOptions()};
  std::vector<variables::Variable> all;
  StageVariables trained{2};
};

TEST_F(StageVariablesOfTen, AreFoundByTheirMemory) {
  EXPECT_EQ(trained.count(), 10u);
  EXPECT_EQ(trained.find(value(3)), 3u);
  EXPECT_EQ(trained.find(value(3).detach()), 3u);
  EXPECT_FALSE(trained.find(at::ones({2, 3})));
  EXPECT_FALSE(trained.find(value(0)));  // it has no elements
}

TEST_F(StageVariablesOfTen, UsesAreReadAsTheyWereWritten) {
  VariableUse use{.used = trained.none(), .tied = trained.none()};
  VariableSet first = trained.none(), second = trained.none();
  first[1] = first[9] = true;
  second[2] = second[9] = true;
  use = use.with(first).with(second);
  const at::Tensor bytes = to_bytes(use);
  EXPECT_EQ(bytes.numel(), bytes_of_use(10));
  const VariableUse read = use_from_bytes(bytes, 10);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(read.used[i], i == 1 || i == 2 || i == 9) << i;
    EXPECT_EQ(read.tied[i], i == 9) << i;
  }
}

TEST_F(StageVariablesOfTen, TheLeavesOfATensorAreThoseOfItsGraph) {
  const at::Tensor received = at::ones({2, 1}).requires_grad_();
  const at::Tensor other = at::ones({2, 1}).requires_grad_();
  const at::Tensor inner = (received * value(1)).tanh();
  const BackwardLeaves all_leaves = backward_leaves(inner * value(2), trained, received);
  EXPECT_TRUE(all_leaves.variables[1] && all_leaves.variables[2] && !all_leaves.variables[3]);
  EXPECT_TRUE(all_leaves.has_received);
  EXPECT_FALSE(all_leaves.has_others);
  const BackwardLeaves outer = backward_leaves(inner * value(2) * other, trained, received, inner);
  EXPECT_TRUE(!outer.variables[1] && outer.variables[2]);
  EXPECT_FALSE(outer.has_received);
  EXPECT_TRUE(outer.has_others);
  EXPECT_EQ(backward_leaves(at::ones({1}), trained, received).variables, trained.none());
}

TEST_F(StageVariablesOfTen, GradientsAreUnpackedAsTheyWerePacked) {
  const std::vector<std::size_t> numbers = {2, 5, 7};
  const at::Tensor transposed = at::arange(10, at::kFloat).view({5, 2}).t();
  const std::vector<at::Tensor> gradients = {at::full({2, 2}, 3.0), transposed, at::Tensor()};
  const at::Tensor bytes = pack_gradients(numbers, gradients, trained);
  EXPECT_EQ(bytes.nbytes(), 3 + (4 + 10) * sizeof(float));
  const auto read = unpack_gradients(bytes, numbers, trained);
  EXPECT_TRUE(at::equal(read[0], gradients[0]) && at::equal(read[1], transposed));
  EXPECT_FALSE(read[2].defined());
  EXPECT_EQ(error_from([&] { unpack_gradients(bytes.slice(0, 0, 20), numbers, trained); }).code(),
            ErrorCode::kFailedPrecondition);
  const at::Tensor sparse = at::ones({2, 2}).to_sparse();
  const Error error = error_from([&] { pack_gradients({2}, {sparse}, trained); });
  EXPECT_EQ(error.code(), ErrorCode::kUnimplemented);
  EXPECT_TRUE(mentions(error, "'v2'")) << error.what();
}

TEST_F(StageVariablesOfTen, NamesOfThoseTrainedElsewhereAreTakenOnce) {
  trained.mark_trained_elsewhere(0, 4);
  trained.mark_trained_elsewhere(1, 4);
  trained.mark_trained_elsewhere(1, 6);
  EXPECT_EQ(trained.take_trained_elsewhere(), (std::set<std::string>{"v4", "v6"}));
  EXPECT_TRUE(trained.take_trained_elsewhere().empty());
}

}  // namespace
}  // namespace brigade::distribute
