#include "brigade/device/autograd_function.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "brigade/base/error.h"

namespace brigade::device {
namespace {

/// a * b * factor, or a * factor without b.
class ScaledProduct final : public AutogradFunction {
 public:
  explicit ScaledProduct(double factor, std::vector<bool>* wanted = nullptr)
      : factor_(factor), wanted_(wanted) {}

 private:
  at::Tensor forward(const Tensors& inputs) override {
    EXPECT_FALSE(at::GradMode::is_enabled());
    save_for_backward(inputs);
    return inputs[1].defined() ? inputs[0] * inputs[1] * factor_ : inputs[0] * factor_;
  }
  Tensors backward(const Tensors& gradients) override {
    if (wanted_ != nullptr) *wanted_ = {needs_gradient(0), needs_gradient(1)};
    const Tensors kept = saved();
    if (!kept[1].defined()) return {gradients[0] * factor_, {}};
    return {gradients[0] * kept[1] * factor_, gradients[0] * kept[0] * factor_};
  }

  const double factor_;
  std::vector<bool>* const wanted_;
};

/// Passes no gradient on.
class Barrier final : public AutogradFunction {
  at::Tensor forward(const Tensors& inputs) override { return inputs[0].clone(); }
  Tensors backward(const Tensors&) override { return {at::Tensor()}; }
};

class Forgetful final : public AutogradFunction {
  at::Tensor forward(const Tensors& inputs) override { return inputs[0] + inputs[1]; }
  Tensors backward(const Tensors& gradients) override { return gradients; }
};

at::Tensor leaf(double value) {
  return at::full({2}, value, at::kDouble).requires_grad_();
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, double factor = 1) {
  return apply_function<ScaledProduct>({a, b}, factor);
}

TEST(AutogradFunction, HasTheGradientsItComputes) {
  const at::Tensor a = leaf(2), b = leaf(3);
  const at::Tensor y = product(a, b, 10);
  EXPECT_TRUE(y.equal(at::full({2}, 60.0, at::kDouble)));
  y.sum().backward();
  EXPECT_TRUE(a.grad().equal(at::full({2}, 30.0, at::kDouble)));
  EXPECT_TRUE(b.grad().equal(at::full({2}, 20.0, at::kDouble)));
}

TEST(AutogradFunction, IsNamedForItsClassInTheGraph) {
  EXPECT_EQ(product(leaf(1), leaf(1)).grad_fn()->name(),
            "brigade::device::(anonymous namespace)::ScaledProduct");
}

TEST(AutogradFunction, RecordsNothingWhereNoGradientIsWanted) {
  EXPECT_EQ(product(at::ones({2}), at::ones({2})).grad_fn(), nullptr);
  const at::NoGradGuard no_grad;
  EXPECT_EQ(product(leaf(1), leaf(1)).grad_fn(), nullptr);
}

TEST(AutogradFunction, SeesWhichGradientsThePassWants) {
  std::vector<bool> wanted;
  const at::Tensor a = leaf(2);
  apply_function<ScaledProduct>({a, at::ones({2}, at::kDouble)}, 1.0, &wanted).sum().backward();
  EXPECT_EQ(wanted, (std::vector{true, false}));
  const at::Tensor b = leaf(3);
  const at::Tensor y = apply_function<ScaledProduct>({a, b}, 1.0, &wanted).sum();
  EXPECT_TRUE(torch::autograd::grad({y}, {b})[0].equal(a));
  EXPECT_EQ(wanted, (std::vector{false, true}));
}

TEST(AutogradFunction, TakesUndefinedInputs) {
  const at::Tensor a = leaf(2);
  product(a, {}, 10).sum().backward();
  EXPECT_TRUE(a.grad().equal(at::full({2}, 10.0, at::kDouble)));
}

TEST(AutogradFunction, CanBeDifferentiatedAgain) {
  const at::Tensor a = leaf(2), b = leaf(3);
  const at::Tensor of_a = torch::autograd::grad({product(a, b, 10).sum()}, {a}, {}, {},
                                                /*create_graph=*/true)[0];
  of_a.sum().backward();
  EXPECT_TRUE(b.grad().equal(at::full({2}, 10.0, at::kDouble)));
}

TEST(AutogradFunction, DetectsATensorThatChangedSinceItWasSaved) {
  const at::Tensor a = leaf(2);
  at::Tensor b = at::ones({2}, at::kDouble);
  const at::Tensor y = product(a, b).sum();
  b.add_(1);
  EXPECT_THROW(y.backward(), c10::Error);
}

TEST(AutogradFunction, KeepsWhatItSavedForARetainedGraphAlone) {
  const at::Tensor a = leaf(2), b = leaf(3);
  const at::Tensor y = product(a, b).sum();
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  EXPECT_TRUE(a.grad().equal(at::full({2}, 6.0, at::kDouble)));
  EXPECT_THROW(y.backward(), c10::Error);
}

TEST(AutogradFunction, GetsZerosForAGradientThatIsUndefined) {
  const at::Tensor a = leaf(2), b = leaf(3);
  apply_function<Barrier>({product(a, b)}).sum().backward();
  EXPECT_TRUE(a.grad().equal(at::full({2}, 0.0, at::kDouble)));
}

TEST(AutogradFunction, RefusesAnotherNumberOfGradients) {
  const at::Tensor y = apply_function<Forgetful>({leaf(1), leaf(2)}).sum();
  try {
    y.backward();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Forgetful: backward() returned 1 gradients for 2"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace brigade::device
