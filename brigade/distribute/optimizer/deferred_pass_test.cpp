#include "brigade/distribute/optimizer/deferred_pass.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "brigade/distribute/testing/deferred_product.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

using torch::autograd::variable_list;

class DeferredPassTest : public ::testing::Test {
 protected:
  at::Tensor product(const at::Tensor& input) { return DeferredProduct::of(input, w, handed_over); }

  variable_list gradients(const at::Tensor& loss) const {
    return torch::autograd::grad({loss}, {x, w}, {}, /*retain_graph=*/true, false, true);
  }
  /// The gradient by w that was taken, or what autograd returned; `was_taken` says which.
  at::Tensor gradient_of_w(const at::Tensor& loss) {
    const variable_list by = {x, w};
    const DeferredPass pass(loss, by, {.wants = [&](std::size_t index, std::int64_t bytes) {
                              EXPECT_EQ(index, 1U);
                              EXPECT_GT(bytes, 0);
                              return wants;
                            }});
    const variable_list computed = gradients(loss);
    was_taken = pass.gradient(1) != nullptr;
    EXPECT_EQ(was_taken, !computed[1].defined());
    EXPECT_EQ(pass.gradient(0), nullptr);
    EXPECT_TRUE(computed[0].defined());
    return was_taken ? pass.gradient(1)->compute() : computed[1];
  }

  const at::Tensor x = at::rand({3, 4}).requires_grad_();
  const at::Tensor w = at::rand({5, 4}).requires_grad_();
  std::atomic<int> handed_over{0};
  bool wants = true;
  bool was_taken = false;
};

TEST_F(DeferredPassTest, TakesTheGradientOfAVariableWithOneUse) {
  const at::Tensor loss = product(x).square().sum();
  const at::Tensor expected = gradients(loss)[1];
  EXPECT_EQ(handed_over, 0) << "nobody takes it";
  EXPECT_TRUE(gradient_of_w(loss).equal(expected));
  EXPECT_TRUE(was_taken);
  EXPECT_TRUE(gradients(loss)[1].equal(expected)) << "the pass is over";
}

TEST_F(DeferredPassTest, AutogradAddsTheGradientsOfSeveralUses) {
  const std::vector<std::function<at::Tensor()>> losses = {
      [&] { return product(x).sum() + product(x * 2).sum(); },
      [&] { return product(x).sum() + w.square().sum(); },  // a penalty of the weight
      [&] { return product(product(x).narrow(1, 0, 4)).sum(); }};
  for (const auto& make_loss : losses) {
    const at::Tensor loss = make_loss();
    const at::Tensor expected = gradients(loss)[1];
    EXPECT_TRUE(gradient_of_w(loss).equal(expected));
    EXPECT_FALSE(was_taken);
  }
}

TEST_F(DeferredPassTest, AUseThatTheLossDoesNotDependOnDoesNotCount) {
  const at::Tensor other = product(x * 2).sum();
  gradient_of_w(product(x).sum());
  EXPECT_TRUE(was_taken);
}

TEST_F(DeferredPassTest, AHookOfTheVariableSeesItsGradient) {
  at::Tensor seen;
  const unsigned hook = w.register_hook([&](const at::Tensor& gradient) {
    seen = gradient;
    return gradient * 2;
  });
  const at::Tensor loss = product(x).sum();
  const at::Tensor gradient = gradient_of_w(loss);
  EXPECT_FALSE(was_taken);
  EXPECT_TRUE(gradient.equal(seen * 2));
  w.remove_hook(hook);
}

/// Sees what a node returns.
struct SeeGradients : torch::autograd::FunctionPostHook {
  explicit SeeGradients(variable_list& to) : seen(to) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    seen = outputs;
    return outputs;
  }
  variable_list& seen;
};

TEST_F(DeferredPassTest, AHookOfTheNodeSeesItsGradient) {
  const at::Tensor y = product(x);
  variable_list seen;
  y.grad_fn()->add_post_hook(std::make_unique<SeeGradients>(seen));
  gradient_of_w(y.sum());
  EXPECT_FALSE(was_taken);
  ASSERT_GE(seen.size(), 2U);
  EXPECT_TRUE(seen[1].defined());
}

TEST_F(DeferredPassTest, TakesNothingFromAPassInsideOfIt) {
  const at::Tensor inner = product(x).sum();
  at::Tensor from_inner;
  const at::Tensor y = product(x);
  y.register_hook([&](const at::Tensor& gradient) {
    from_inner = gradients(inner)[1];
    return gradient;
  });
  gradient_of_w(y.sum());
  EXPECT_TRUE(was_taken);
  ASSERT_TRUE(from_inner.defined());
  EXPECT_EQ(handed_over, 1);
}

TEST_F(DeferredPassTest, TakesNoOtherVariablesAndNothingUnwanted) {
  const at::Tensor other = at::rand({5, 4}).requires_grad_();
  const at::Tensor loss = DeferredProduct::of(x, other, handed_over).sum() + product(x).sum();
  wants = false;
  gradient_of_w(loss);
  EXPECT_EQ(handed_over, 0);
}

TEST_F(DeferredPassTest, AVariableThatIsGivenTwiceIsComputed) {
  const at::Tensor loss = product(x).sum();
  const variable_list by = {w, w};
  const DeferredPass pass(loss, by, {.wants = [](std::size_t, std::int64_t) { return true; }});
  for (const at::Tensor& gradient : torch::autograd::grad({loss}, by))
    EXPECT_TRUE(gradient.defined());
}

/// Two dense layers whose weights' gradients are handed over, and one parameter whose gradient is
/// not.
struct DeferredNet : torch::nn::Module {
  explicit DeferredNet(std::atomic<int>& counter) : handed_over(counter) {
    first = register_parameter("first", at::ones({6, 4}) * 0.25);
    second = register_parameter("second", at::ones({3, 6}) * 0.125);
    bias = register_parameter("bias", at::ones({6}));
  }
  at::Tensor forward(const at::Tensor& features) {
    const at::Tensor hidden = (DeferredProduct::of(features, own(first), handed_over) + bias).sin();
    return DeferredProduct::of(hidden, own(second), handed_over).square().sum(1);
  }
  /// A view is no variable: its gradient is computed.
  at::Tensor own(const at::Tensor& weight) const {
    return defers ? weight : weight.view_as(weight);
  }
  std::atomic<int>& handed_over;
  bool defers = true;
  at::Tensor first, second, bias;
};

struct DeferredTraining {
  bool defers = true;
  int devices = 1;
  int accumulate = 1;
  std::optional<GradientScalerOptions> scaler = std::nullopt;
  /// Instead of `Optimizer::minimize`.
  std::function<void(const Optimizer&, const at::Tensor& loss)> update = {};
};

/// The weights after some steps of `replicas` logical replicas, with uneven batches.
at::Tensor train_deferred(int replicas, const DeferredTraining& training,
                          std::atomic<int>& handed_over) {
  MirroredOptions options = cpus(training.devices);
  options.logical_replicas = replicas;
  MirroredStrategy strategy(options);
  const auto model = strategy.create<DeferredNet>(std::ref(handed_over));
  for (int replica = 0; replica < replicas; ++replica)
    model.replica(replica).defers = training.defers;
  const auto optimizer =
      strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1},
                         {.accumulate = training.accumulate, .gradient_scaler = training.scaler});
  for (int step = 0; step < 2 * training.accumulate + 1; ++step) {
    strategy.run([&](ReplicaContext& context) {
      const at::Tensor features =
          at::arange(4 * (2 + context.replica_id() % 3), at::kFloat).view({-1, 4}).add(step).cos();
      const at::Tensor loss = model(features).sum();
      if (training.update) {
        training.update(optimizer, loss);
      } else {
        optimizer.minimize(loss, LossScale::kSum);
      }
    });
  }
  optimizer.flush();
  std::vector<at::Tensor> weights;
  for (const variables::Variable& variable : model.variables())
    weights.push_back(variable.read().flatten());
  return at::cat(weights);
}

TEST(DeferredGradients, HaveTheBitsOfComputedOnesOnAnyNumberOfDevices) {
  for (const int replicas : {2, 3, 4, 5, 6, 8}) {
    std::atomic<int> handed_over{0};
    const at::Tensor expected = train_deferred(replicas, {.defers = false}, handed_over);
    EXPECT_EQ(handed_over, 0);
    for (int devices = 1; devices <= std::min(replicas, 4); ++devices) {
      handed_over = 0;
      EXPECT_TRUE(train_deferred(replicas, {.devices = devices}, handed_over).equal(expected))
          << replicas << " logical replicas on " << devices << " devices";
      const int of_shared_devices = devices == replicas ? 0 : replicas - devices;
      EXPECT_GE(handed_over, 2 * 3 * of_shared_devices);
      if (devices == replicas) EXPECT_EQ(handed_over, 0) << "a device has one replica";
    }
  }
}

TEST(DeferredGradients, AreAddedToThoseOfEarlierMicroBatches) {
  for (const int replicas : {1, 3}) {
    for (const int accumulate : {2, 5, 20}) {  // a gradient is as large as 8 deferred ones
      std::atomic<int> handed_over{0};
      const at::Tensor expected =
          train_deferred(replicas, {.defers = false, .accumulate = accumulate}, handed_over);
      EXPECT_EQ(handed_over, 0);
      EXPECT_TRUE(
          train_deferred(replicas, {.accumulate = accumulate}, handed_over).equal(expected));
      EXPECT_EQ(handed_over, 2 * replicas * (2 * accumulate + 1));
    }
  }
}

TEST(DeferredGradients, AreComputedForWhoeverReadsOrScalesThem) {
  const std::vector<DeferredTraining> trainings = {
      {.scaler = GradientScalerOptions{}},
      {.update = [](const Optimizer& optimizer, const at::Tensor& loss) {
        const Gradients own = optimizer.compute_gradients(loss, LossScale::kSum);
        for (const at::Tensor& gradient : own.values()) EXPECT_TRUE(gradient.defined());
        optimizer.apply_gradients(optimizer.aggregate(own));
      }}};
  for (DeferredTraining training : trainings) {
    std::atomic<int> handed_over{0};
    const at::Tensor result = train_deferred(4, training, handed_over);
    EXPECT_EQ(handed_over, 0);
    training.defers = false;
    EXPECT_TRUE(train_deferred(4, training, handed_over).equal(result));
  }
}

}  // namespace
}  // namespace brigade::distribute
