#include "brigade/layers/dense_weight_gradient.h"

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <memory>
#include <utility>
#include <vector>

#include "brigade/comm/local/reduce_kernel.h"
#include "brigade/layers/dense_product.h"
#include "brigade/layers/small_batch_products.h"

namespace brigade::layers {
namespace {

using variables::DeferredGradientPtr;
using variables::GradientPart;

// Rests of all tiles: 6, 4 and 2 rows and 1; 64, 32, 16 and 8 columns.
constexpr std::int64_t kIn = 64 + 48;
constexpr std::int64_t kOut = 67;

/// Of magnitudes so different that orders of additions have different sums.
GradientPart product_part(const at::Tensor& weight, std::int64_t examples, std::int64_t number) {
  torch::manual_seed(100 + number);
  const double scale = number % 3 == 0 ? 1e4 : 1.0;
  return {.deferred = std::make_shared<const DenseWeightGradient>(
              weight, torch::randn({examples, weight.size(0)}) * scale,
              torch::randn({examples, weight.size(1)}))};
}

at::Tensor computed_value(const GradientPart& part) {
  return part.deferred ? part.deferred->compute() : part.value;
}

/// By the definition: all products, then the additions.
at::Tensor sum_by_definition(const std::vector<GradientPart>& parts,
                             const comm::ReductionTree& tree) {
  std::vector<at::Tensor> values;
  for (const GradientPart& part : parts) values.push_back(computed_value(part));
  return comm::combine_by_tree(values, tree, comm::ReduceOp::kSum);
}

at::Tensor sum_at_once(const std::vector<GradientPart>& parts, const comm::ReductionTree& tree) {
  for (const GradientPart& part : parts) {
    if (!part.deferred) continue;
    at::Tensor sum = torch::empty(part.deferred->variable().sizes());
    EXPECT_TRUE(part.deferred->try_sum(parts, tree, sum));
    return sum;
  }
  return {};
}

class DenseWeightGradientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SmallBatchProducts::are_supported()) GTEST_SKIP() << "no AVX2: libtorch computes";
    at::set_num_threads(1);
  }
  const at::Tensor weight = torch::zeros({kOut, kIn}).requires_grad_();
};

TEST_F(DenseWeightGradientTest, IsTheProduct) {
  const at::Tensor dy = torch::randn({9, kOut}), x = torch::randn({9, kIn});
  const at::Tensor exact = dy.to(at::kDouble).t().mm(x.to(at::kDouble));
  const at::Tensor product = DenseWeightGradient(weight, dy, x).compute();
  EXPECT_LT(((product.to(at::kDouble) - exact).norm() / exact.norm()).item<double>(), 1e-6);
  EXPECT_FALSE(product.requires_grad());
}

TEST_F(DenseWeightGradientTest, ASumHasTheBitsOfProductsThatAreAddedByTheTree) {
  for (const int leaves : {2, 3, 4, 5, 6, 7, 8, 16, 33}) {
    std::vector<GradientPart> parts;
    for (int leaf = 0; leaf < leaves; ++leaf)
      parts.push_back(product_part(weight, 2 + leaf % 7 * 5, leaf));
    const comm::ReductionTree tree(leaves);
    const at::Tensor sum = sum_at_once(parts, tree);
    EXPECT_TRUE(at::equal(sum, sum_by_definition(parts, tree))) << leaves;
    if (leaves < 4) continue;
    EXPECT_FALSE(at::equal(sum, sum_by_definition(parts, comm::ReductionTree::chain(leaves))))
        << "so the order is not tested";
  }
}

TEST_F(DenseWeightGradientTest, AChainIsAddedInItsOrder) {
  std::vector<GradientPart> parts;
  for (int leaf = 0; leaf < 7; ++leaf) parts.push_back(product_part(weight, 8, leaf));
  const auto chain = comm::ReductionTree::chain(7);
  EXPECT_TRUE(at::equal(sum_at_once(parts, chain), sum_by_definition(parts, chain)));
}

TEST_F(DenseWeightGradientTest, ValuesAreAddedAndMissingPartsAddNothing) {
  const comm::ReductionTree tree(6);
  for (unsigned mask = 0; mask < 1U << 6; ++mask) {
    std::vector<GradientPart> parts(6);
    for (int leaf = 0; leaf < 6; ++leaf) {
      if ((mask >> leaf & 1U) == 0) continue;
      parts[static_cast<std::size_t>(leaf)] = product_part(weight, 3 + leaf, leaf);
      if (leaf % 2 == 1) {
        GradientPart& part = parts[static_cast<std::size_t>(leaf)];
        part = {.value = part.deferred->compute()};
      }
    }
    if ((mask & 0b010101U) == 0) continue;  // no product
    EXPECT_TRUE(at::equal(sum_at_once(parts, tree), sum_by_definition(parts, tree))) << mask;
  }
}

TEST_F(DenseWeightGradientTest, TheSumMayBeMadeInTheMemoryOfAValue) {
  const comm::ReductionTree tree(3);
  std::vector<GradientPart> parts = {product_part(weight, 4, 0), {}, product_part(weight, 5, 1)};
  parts[1].value = torch::randn({kOut, kIn});
  const at::Tensor expected = sum_by_definition(parts, tree);
  EXPECT_TRUE(parts[0].deferred->try_sum(parts, tree, parts[1].value));
  EXPECT_TRUE(at::equal(parts[1].value, expected));
}

TEST_F(DenseWeightGradientTest, BitsDoNotDependOnTheNumberOfThreadsOrOfSummands) {
  const at::Tensor large = torch::zeros({515, 1040}).requires_grad_();
  std::vector<GradientPart> parts;
  for (int leaf = 0; leaf < 4; ++leaf) parts.push_back(product_part(large, 64, leaf));
  const comm::ReductionTree tree(4);
  const at::Tensor one = sum_at_once(parts, tree);
  at::set_num_threads(3);
  EXPECT_TRUE(at::equal(sum_at_once(parts, tree), one));
  EXPECT_TRUE(at::equal(sum_by_definition(parts, tree), one));
  at::set_num_threads(1);
}

/// A gradient that this class cannot add.
struct OtherGradient : variables::DeferredGradient {
  using DeferredGradient::DeferredGradient;
  std::int64_t bytes() const override { return 0; }
  at::Tensor compute() const override { return torch::ones(variable().sizes()); }
};

TEST_F(DenseWeightGradientTest, SumsWithGradientsOfOtherLayersAreLeftToTheCaller) {
  const std::vector<GradientPart> parts = {product_part(weight, 4, 0),
                                           {.deferred = std::make_shared<OtherGradient>(weight)}};
  const at::Tensor sum = torch::full({kOut, kIn}, 3.0);
  EXPECT_FALSE(parts[0].deferred->try_sum(parts, comm::ReductionTree(2), sum));
  EXPECT_TRUE(at::equal(sum, torch::full({kOut, kIn}, 3.0)));
}

TEST_F(DenseWeightGradientTest, ATreeOfTooManyLevelsIsLeftToTheCaller) {
  const GradientPart part = product_part(torch::zeros({1, 16}).requires_grad_(), 2, 0);
  constexpr int kLeaves = 1 << 13;  // 13 sums wait for the last one
  const std::vector<GradientPart> parts(kLeaves, part);
  const comm::ReductionTree tree(kLeaves);
  EXPECT_FALSE(part.deferred->try_sum(parts, tree, torch::zeros({1, 16})));
}

/// Takes the gradient by any variable.
struct TakeAll : variables::GradientDeferral {
  bool takes(const at::Tensor&, std::int64_t bytes) override {
    asked_bytes = bytes;
    return true;
  }
  void take(DeferredGradientPtr gradient) override { taken = std::move(gradient); }
  DeferredGradientPtr taken;
  std::int64_t asked_bytes = 0;
};

TEST_F(DenseWeightGradientTest, ADenseProductHandsOverWhatItWouldHaveComputed) {
  for (const std::int64_t examples : {2, 31, 32, 33, 64}) {
    torch::manual_seed(examples);
    at::Tensor x = torch::randn({examples, 2048}).requires_grad_();
    const at::Tensor w = torch::randn({520, 2048}).requires_grad_();
    const auto gradients = [&] {
      const at::Tensor loss = dense_product(x, w).square().sum();
      return torch::autograd::grad({loss}, {x, w}, {}, std::nullopt, false, true);
    };
    const auto expected = gradients();
    TakeAll deferral;
    {
      const base::AmbientScope<variables::GradientDeferral> scope(variables::kGradientDeferralSlot,
                                                                  &deferral);
      const auto rest = gradients();
      EXPECT_TRUE(at::equal(rest[0], expected[0]));
      EXPECT_FALSE(rest[1].defined());
    }
    ASSERT_TRUE(deferral.taken);
    EXPECT_TRUE(deferral.taken->variable().is_same(w));
    EXPECT_EQ(deferral.taken->bytes(), examples * (520 + 2048) * 4);
    EXPECT_EQ(deferral.asked_bytes, deferral.taken->bytes());
    {
      const at::NoGradGuard no_grad;
      x.zero_();  // a program may reuse its batch
    }
    EXPECT_TRUE(at::equal(deferral.taken->compute(), expected[1])) << examples;
  }
}

TEST_F(DenseWeightGradientTest, AGraphOfGradientsIsNotHandedOver) {
  const at::Tensor x = torch::randn({4, 1024}).requires_grad_();
  const at::Tensor w = torch::randn({1024, 1024}).requires_grad_();
  TakeAll deferral;
  const base::AmbientScope<variables::GradientDeferral> scope(variables::kGradientDeferralSlot,
                                                              &deferral);
  const auto gradients = torch::autograd::grad({dense_product(x, w).square().sum()}, {w}, {},
                                               std::nullopt, /*create_graph=*/true);
  EXPECT_TRUE(gradients.front().requires_grad());
  EXPECT_FALSE(deferral.taken);
}

}  // namespace
}  // namespace brigade::layers
