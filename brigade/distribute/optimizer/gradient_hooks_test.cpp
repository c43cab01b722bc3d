#include "brigade/distribute/optimizer/gradient_hooks.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

/// Logs its notifications.
struct Listener : GradientReadyListener {
  bool is_enabled() const override { return true; }
  void begin(int replica) override { log.push_back("begin " + std::to_string(replica)); }
  void ready(int replica, std::size_t variable, const at::Tensor& gradient) override {
    EXPECT_TRUE(gradient.is_contiguous());
    log.push_back(std::to_string(replica) + ": " + std::to_string(variable));
    gradients.push_back(gradient);
  }
  void cancel(int replica) noexcept override { log.push_back("cancel " + std::to_string(replica)); }

  std::vector<std::string> log;
  std::vector<at::Tensor> gradients;
};

using Log = std::vector<std::string>;

class GradientHooksTest : public ::testing::Test {
 protected:
  GradientHooksTest() {
    for (at::Tensor* parameter : {&bottom, &top})
      *parameter = at::full({3}, 2.0, at::kDouble).requires_grad_();
    hooks = make_hooks(listener);
  }
  std::unique_ptr<GradientHooks> make_hooks(Listener& target) const {
    return std::make_unique<GradientHooks>(
        target, std::vector<std::vector<HookedParameter>>{
                    {{.parameter = bottom, .variable = 5}, {.parameter = top, .variable = 7}}});
  }

  std::vector<at::Tensor> backward(const at::Tensor& loss) const {
    return torch::autograd::grad({loss}, {bottom, top}, {}, std::nullopt, false, true);
  }
  std::vector<at::Tensor> watched_backward(const at::Tensor& loss) const {
    const GradientHooks::Watch watch(*hooks, 0, loss);
    auto gradients = backward(loss);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const at::Tensor reported = watch.reported(i, gradients[i]);
      EXPECT_EQ(reported.defined(), gradients[i].defined());
      if (!reported.defined()) continue;
      EXPECT_TRUE(reported.equal(gradients[i]));
    }
    return gradients;
  }

  at::Tensor bottom, top;
  Listener listener;
  std::unique_ptr<GradientHooks> hooks;
};

TEST_F(GradientHooksTest, AGradientIsReportedDuringBackward) {
  const at::Tensor hidden = bottom * 3;
  hidden.register_hook([&](const at::Tensor&) { listener.log.push_back("half-way"); });
  watched_backward((hidden * top).sum());
  EXPECT_EQ(listener.log, (Log{"begin 0", "0: 7", "half-way", "0: 5"}));
  EXPECT_TRUE(listener.gradients[0].equal(at::full({3}, 6.0, at::kDouble)));
  EXPECT_TRUE(listener.gradients[1].equal(at::full({3}, 6.0, at::kDouble)));
}

TEST_F(GradientHooksTest, AParameterThatIsUsedTwiceReportsTheSum) {
  const at::Tensor scaled = bottom * 5;  // before the product: its gradient is the later one
  watched_backward((bottom * top + scaled).sum());
  EXPECT_EQ(listener.log, (Log{"begin 0", "0: 7", "0: 5"}));
  EXPECT_TRUE(listener.gradients[1].equal(at::full({3}, 7.0, at::kDouble)));
}

TEST_F(GradientHooksTest, AnUnusedParameterIsNotReported) {
  watched_backward(top.sum());
  EXPECT_EQ(listener.log, (Log{"begin 0", "0: 7"}));
}

TEST_F(GradientHooksTest, HooksOfTheProgramRunFirstWheneverTheyWereAdded) {
  top.register_hook([](const at::Tensor& gradient) { return gradient * 10; });
  watched_backward((top * 2).sum());
  EXPECT_TRUE(listener.gradients[0].equal(at::full({3}, 20.0, at::kDouble)));
}

TEST_F(GradientHooksTest, OutsideAWatchNothingIsReported) {
  const auto loss = [&] { return (bottom * 1 * top).sum(); };
  backward(loss());
  watched_backward(loss());
  backward(loss());
  EXPECT_EQ(listener.log, (Log{"begin 0", "0: 7", "0: 5"}));
}

/// A function whose backward runs a nested pass over the same parameter.
struct Nested : torch::autograd::Function<Nested> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& parameter) {
    context->save_for_backward({parameter});
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::AutoGradMode with_graph(true);
    const at::Tensor parameter = context->get_saved_variables()[0];
    const auto inner = torch::autograd::grad({(parameter * 100).sum()}, {parameter});
    return {gradients[0] + inner[0], at::Tensor()};
  }
};

TEST_F(GradientHooksTest, ANestedPassIsNotReported) {
  const auto gradients = watched_backward((Nested::apply(bottom * 1, top) * top).sum());
  EXPECT_EQ(listener.log, (Log{"begin 0", "0: 7", "0: 5"}));
  EXPECT_TRUE(gradients[0].equal(at::full({3}, 102.0, at::kDouble)));
  EXPECT_TRUE(gradients[1].equal(at::full({3}, 2.0, at::kDouble)));
}

TEST_F(GradientHooksTest, APassThatThrowsIsCancelled) {
  const at::Tensor hidden = bottom * 3;
  hidden.register_hook([](const at::Tensor&) { throw Error(ErrorCode::kInternal, "half-way"); });
  EXPECT_ANY_THROW(watched_backward((hidden * top).sum()));
  EXPECT_EQ(listener.log, (Log{"begin 0", "0: 7", "cancel 0"}));
  listener.log.clear();
  watched_backward(top.sum());
  EXPECT_EQ(listener.log, (Log{"begin 0", "0: 7"}));
}

TEST_F(GradientHooksTest, SeveralListenersOfOneParameterAreIndependent) {
  Listener other;
  auto others = make_hooks(other);
  watched_backward(top.sum());
  EXPECT_TRUE(other.log.empty());
  hooks.reset();
  hooks = std::move(others);
  watched_backward(top.sum());
  EXPECT_EQ(other.log, (Log{"begin 0", "0: 7"}));
  EXPECT_EQ(listener.log, other.log);
}

}  // namespace
}  // namespace brigade::distribute
