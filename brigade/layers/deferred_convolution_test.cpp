#include "brigade/layers/deferred_convolution.h"

#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "brigade/base/ambient.h"
#include "brigade/comm/replica.h"
#include "brigade/comm/stage_passes.h"
#include "brigade/layers/deferrable_linear.h"
#include "brigade/layers/fused_pooling.h"
#include "brigade/variables/deferred_gradient.h"

namespace brigade::layers {
namespace {

using TwoSizes = std::array<std::int64_t, 2>;

struct ConvolutionCase {
  std::string name;
  std::int64_t examples, in, out, side, kernel, stride, groups;
};

const std::vector<ConvolutionCase> kConvolutions = {
    {"mnist1", 64, 1, 32, 28, 5, 1, 1},    {"mnist2", 64, 32, 64, 14, 5, 1, 1},
    {"few", 2, 32, 64, 14, 5, 1, 1},       {"strided", 8, 16, 32, 16, 3, 2, 1},
    {"pointwise", 8, 32, 16, 16, 1, 1, 1}, {"grouped", 8, 16, 32, 16, 3, 1, 4}};

at::Tensor random_leaf(at::IntArrayRef sizes) {
  return at::randn(sizes).set_requires_grad(true);
}

// What leaving the gradient of a weight for later relies on.
TEST(ConvolutionBackward, TheBitsOfAGradientDoNotDependOnWhichOthersAreWanted) {
  at::set_num_threads(1);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (const ConvolutionCase& each : kConvolutions) {
      SCOPED_TRACE(each.name + (format == at::MemoryFormat::Contiguous ? "" : " channels last"));
      const at::Tensor images =
          at::randn({each.examples, each.in, each.side, each.side}).contiguous(format);
      const at::Tensor weight =
          at::randn({each.out, each.in / each.groups, each.kernel, each.kernel}).contiguous(format);
      const TwoSizes stride = {each.stride, each.stride}, none = {0, 0}, one = {1, 1},
                     padding = {each.kernel / 2, each.kernel / 2};
      const at::Tensor gradient = at::randn_like(
          at::conv2d(images, weight, {}, stride, padding, one, each.groups).contiguous(format));
      const std::vector<std::int64_t> bias_sizes = {each.out};
      const auto compute = [&](std::array<bool, 3> wanted) {
        return at::convolution_backward(gradient, images, weight,
                                        at::OptionalIntArrayRef(bias_sizes), stride, padding, one,
                                        false, none, each.groups, wanted);
      };
      const auto all = compute({true, true, true});
      EXPECT_TRUE(at::equal(std::get<0>(compute({true, false, false})), std::get<0>(all)));
      const auto later = compute({false, true, true});
      EXPECT_TRUE(at::equal(std::get<1>(later), std::get<1>(all)));
      EXPECT_TRUE(at::equal(std::get<2>(later), std::get<2>(all)));
    }
  }
}

struct NoStages final : comm::StagePasses {
  at::Tensor begin_layer(int, std::string_view, const at::Tensor& x) override { return x; }
  void begin_backward(int) override {}
  void end_backward(int) noexcept override {}
};

/// As if this thread were a micro-batch of a pipeline.
class InPipeline {
 public:
  InPipeline() : replica_{.stages = &stages_}, scope_(comm::kReplicaSlot, &replica_) {}

 private:
  NoStages stages_;
  const comm::Replica replica_;
  const base::AmbientScope<const comm::Replica> scope_;
};

class TakesAll final : public variables::GradientDeferral {
 public:
  bool takes(const at::Tensor&, std::int64_t bytes) override {
    least_bytes = std::min(least_bytes, bytes);
    return takes_any;
  }
  void take(variables::DeferredGradientPtr gradient) override {
    taken.push_back(std::move(gradient));
  }
  bool takes_any = true;
  std::int64_t least_bytes = 1 << 30;
  std::vector<variables::DeferredGradientPtr> taken;
};

using Operands = std::vector<at::Tensor>;
using OfOperands = std::function<at::Tensor(const Operands&)>;

Operands gradients_by_operands(const OfOperands& function, const Operands& inputs) {
  const at::Tensor result = function(inputs);
  return torch::autograd::grad({result}, inputs, {result.detach().cos()}, std::nullopt, false,
                               /*allow_unused=*/true);
}

/// `inputs`: images, weight, bias. Whatever is handed over is what the pass would have computed.
void expect_same_bits(const OfOperands& function, const OfOperands& plain, const Operands& inputs) {
  const Operands expected = gradients_by_operands(plain, inputs);
  const InPipeline pipeline;
  for (const bool bias_first : {false, true}) {
    TakesAll deferral;
    Operands got;
    {
      const base::AmbientScope<variables::GradientDeferral> scope(variables::kGradientDeferralSlot,
                                                                  &deferral);
      got = gradients_by_operands(function, inputs);
    }
    EXPECT_TRUE(at::equal(got[0], expected[0]));
    EXPECT_FALSE(got[1].defined());
    EXPECT_FALSE(got[2].defined());
    ASSERT_EQ(deferral.taken.size(), 2u);
    EXPECT_GE(deferral.least_bytes, static_cast<std::int64_t>(inputs[0].nbytes()));
    EXPECT_FALSE(deferral.taken[0]->is_by_product());
    EXPECT_TRUE(deferral.taken[1]->is_by_product());
    const at::Tensor before = inputs[0].detach().clone();
    inputs[0].detach().zero_();  // the program reuses its batch
    for (const std::size_t k : {std::size_t{bias_first}, std::size_t{!bias_first}}) {
      EXPECT_TRUE(deferral.taken[k]->variable().is_same(inputs[k + 1]));
      EXPECT_TRUE(at::equal(deferral.taken[k]->compute(), expected[k + 1])) << k;
    }
    EXPECT_TRUE(at::equal(deferral.taken[0]->compute(), expected[1]));  // again
    inputs[0].detach().copy_(before);
  }
  TakesAll refusal;
  refusal.takes_any = false;
  const base::AmbientScope<variables::GradientDeferral> scope(variables::kGradientDeferralSlot,
                                                              &refusal);
  const Operands got = gradients_by_operands(function, inputs);
  for (std::size_t k = 0; k < got.size(); ++k) EXPECT_TRUE(at::equal(got[k], expected[k])) << k;
}

TEST(DeferrableConv2d, HandsOverWhatConv2dComputes) {
  at::set_num_threads(1);
  for (const ConvolutionCase& each : kConvolutions) {
    SCOPED_TRACE(each.name);
    const TwoSizes stride = {each.stride, each.stride}, one = {1, 1},
                   padding = {each.kernel / 2, each.kernel / 2};
    const Operands inputs = {
        random_leaf({each.examples, each.in, each.side, each.side}),
        random_leaf({each.out, each.in / each.groups, each.kernel, each.kernel}),
        random_leaf({each.out})};
    expect_same_bits(
        [&](const Operands& x) {
          return deferrable_conv2d(x[0], x[1], x[2], stride, padding, one, each.groups);
        },
        [&](const Operands& x) {
          return at::conv2d(x[0], x[1], x[2], stride, padding, one, each.groups);
        },
        inputs);
  }
}

TEST(DeferrableConv2d, ConvPoolReluHandsOverWhatItComputes) {
  at::set_num_threads(1);
  const OfOperands function = [](const Operands& x) { return conv_pool_relu(x[0], x[1], x[2]); };
  // Several pieces, whose gradients are added.
  expect_same_bits(function, function,
                   {random_leaf({48, 32, 28, 28}), random_leaf({64, 32, 5, 5}), random_leaf({64})});
}

TEST(DeferrableLinear, HandsOverWhatLinearComputes) {
  at::set_num_threads(1);
  for (const auto& [examples, in, out] :
       std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>{
           {64, 3136, 1024}, {7, 48, 10}, {2, 640, 33}, {128, 1024, 10}}) {
    SCOPED_TRACE(in);
    const Operands inputs = {random_leaf({examples, in}), random_leaf({out, in}),
                             random_leaf({out})};
    const Operands expected = gradients_by_operands(
        [](const Operands& x) { return at::linear(x[0], x[1], x[2]); }, inputs);
    const InPipeline pipeline;
    TakesAll deferral;
    const base::AmbientScope<variables::GradientDeferral> scope(variables::kGradientDeferralSlot,
                                                                &deferral);
    const OfOperands function = [](const Operands& x) {
      return deferrable_linear(x[0], x[1], x[2]);
    };
    const Operands got = gradients_by_operands(function, inputs);
    EXPECT_TRUE(at::equal(got[0], expected[0]));
    EXPECT_FALSE(got[1].defined());
    EXPECT_TRUE(at::equal(got[2], expected[2]));
    ASSERT_EQ(deferral.taken.size(), 1u);
    EXPECT_TRUE(at::equal(deferral.taken[0]->compute(), expected[1]));
    deferral.takes_any = false;
    const Operands at_once = gradients_by_operands(function, inputs);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_TRUE(at::equal(at_once[k], expected[k])) << k;
  }
}

TEST(DeferrableConv2d, WithoutABiasOrAGradientOfItTheWeightAloneIsHandedOver) {
  const InPipeline pipeline;
  const at::Tensor images = at::randn({8, 4, 16, 16}), weight = random_leaf({8, 4, 3, 3});
  const TwoSizes one = {1, 1};
  for (const at::Tensor& bias : {at::Tensor(), at::randn({8})}) {
    TakesAll deferral;
    const base::AmbientScope<variables::GradientDeferral> scope(variables::kGradientDeferralSlot,
                                                                &deferral);
    const at::Tensor sum = deferrable_conv2d(images, weight, bias, one, one, one, 1).sum();
    EXPECT_FALSE(
        torch::autograd::grad({sum}, {weight}, {}, std::nullopt, false, true)[0].defined());
    ASSERT_EQ(deferral.taken.size(), 1u);
    EXPECT_EQ(deferral.taken[0]->compute().sizes(), weight.sizes());
  }
}

TEST(DeferrableConv2d, GradientsOfGradientsAreComputedAtOnce) {
  const InPipeline pipeline;
  TakesAll deferral;
  const base::AmbientScope<variables::GradientDeferral> scope(variables::kGradientDeferralSlot,
                                                              &deferral);
  const at::Tensor images = random_leaf({2, 3, 8, 8}), weight = random_leaf({4, 3, 3, 3}),
                   bias = random_leaf({4});
  const TwoSizes one = {1, 1};
  const auto second = [&](const at::Tensor& result) {
    const auto first =
        torch::autograd::grad({result.square().sum()}, {weight}, {}, true, /*create_graph=*/true);
    return torch::autograd::grad({first[0].square().sum()}, {images}, {}, true, true)[0];
  };
  const at::Tensor got = second(deferrable_conv2d(images, weight, bias, one, one, one, 1));
  EXPECT_TRUE(deferral.taken.empty());
  EXPECT_TRUE(at::allclose(got, second(at::conv2d(images, weight, bias, one, one)), 1e-4, 1e-4));
}

}  // namespace
}  // namespace brigade::layers
