// Training in low precision: the forward pass computes in it, in every replica and every step with
// the current weights; variables, statistics, losses and gradients stay float32.
#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "brigade/device/autocast_scope.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/conv2d.h"
#include "brigade/layers/losses.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/pooling.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/layers/v1/tf_losses.h"
#include "brigade/models/keras/sequential.h"
#include "brigade/models/mnist_cnn.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"
#include "tests/parity/examples.h"

namespace brigade::parity {
namespace {

using device::Precision;
using distribute::MirroredStrategy;
using distribute::Strategy;

constexpr Precision kLow[] = {Precision::kBf16, Precision::kFp16};

/// All kinds of layers with variables; `dtypes` gets the dtypes of results.
at::Tensor every_layer(const at::Tensor& images, std::set<at::ScalarType>* dtypes,
                       layers::BatchStatistics statistics) {
  const auto normalizer =
      layers::batch_normalizer({.decay = 0.8, .scale = true, .statistics = statistics});
  at::Tensor net = layers::conv2d(images, 4, 3, {.normalizer = normalizer});
  net = layers::max_pool2d(net, 2);
  net = layers::separable_conv2d(net, 4, 3);
  if (dtypes != nullptr) dtypes->insert(net.scalar_type());
  net = layers::layer_norm(layers::avg_pool2d(net, 2));
  net = layers::bias_add(net, {.activation = layers::relu});
  net = layers::v1::batch_normalization(net, {.mode = variables::Mode::kTraining});
  net = layers::fully_connected(layers::dropout(layers::flatten(net)), 16);
  if (dtypes != nullptr) dtypes->insert(net.scalar_type());
  return layers::fully_connected(net, 10, {.activation = nullptr});
}

template <class Model>
std::vector<double> losses_of(Strategy& strategy, const Model& model, int steps) {
  distribute::OptimizerOptions options;
  if (strategy.precision() == Precision::kFp16) options.gradient_scaler.emplace();
  const auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 3e-3}, options);
  std::vector<double> losses;
  for (const auto& batch : strategy.distribute(examples(64).batch(32).repeat())) {
    if (static_cast<int>(losses.size()) == steps) break;
    const auto found = strategy.run(
        [&](distribute::ReplicaContext&, const input::LabeledBatch& own) {
          const at::Tensor loss =
              layers::losses::sparse_softmax_cross_entropy(model(own.features), own.labels);
          EXPECT_EQ(loss.scalar_type(), at::kFloat);
          adam.minimize(loss);
          return loss.detach();
        },
        batch);
    losses.push_back(strategy.reduce_mean_over_examples(found).template item<double>());
  }
  for (const auto& variable : adam.state().variables())
    EXPECT_EQ(variable.dtype(), at::kFloat) << variable.name();
  EXPECT_LE(adam.skipped_updates(), 2) << "the initial scale is too large for some models";
  return losses;
}

TEST(LowPrecision, TrainsEveryKindOfLayer) {
  for (const auto statistics :
       {layers::BatchStatistics::kReplica, layers::BatchStatistics::kGlobal}) {
    for (const Precision precision : kLow) {
      MirroredStrategy strategy(distribute::cpus(2));
      std::mutex mutex;
      std::set<at::ScalarType> dtypes;
      const auto model = strategy.create(
          [&](const at::Tensor& images) {
            std::set<at::ScalarType> own;
            const at::Tensor logits = every_layer(images, &own, statistics);
            const std::lock_guard lock(mutex);
            dtypes.merge(own);
            return logits;
          },
          at::ones({1, 1, 28, 28}));
      dtypes.clear();
      strategy.set_precision(precision);
      const auto losses = losses_of(strategy, model, 8);
      EXPECT_LT(losses.back(), losses.front()) << device::to_string(precision);
      EXPECT_EQ(dtypes, std::set{precision == Precision::kBf16 ? at::kBFloat16 : at::kHalf});
      for (const auto& variable : model.variables()) {
        EXPECT_EQ(variable.dtype(), at::kFloat) << variable.name();
        EXPECT_TRUE(variable.read().isfinite().all().template item<bool>()) << variable.name();
      }
      model.eval();
      strategy.run([&](distribute::ReplicaContext&) { model(at::ones({2, 1, 28, 28})); });
    }
  }
}

TEST(LowPrecision, LearnsLikeFullPrecision) {
  std::vector<double> full;
  for (const Precision precision : {Precision::kFull, Precision::kBf16, Precision::kFp16}) {
    MirroredStrategy strategy(distribute::cpus(2));
    strategy.set_precision(precision);
    const auto model = strategy.create<models::MnistCnn>();
    const auto losses = losses_of(strategy, model, 6);
    if (precision == Precision::kFull) full = losses;
    EXPECT_LT(losses.back(), 0.9 * losses.front()) << device::to_string(precision);
    EXPECT_NEAR(losses.front(), full.front(), 0.02 * full.front());
    EXPECT_EQ(losses == full, precision == Precision::kFull) << "the precision had no effect";
  }
}

// Convolutions with relu and pooling are fused in full precision.
TEST(LowPrecision, TrainsASequential) {
  using namespace models;
  for (const Precision precision : kLow) {
    MirroredStrategy strategy(distribute::cpus(1));
    strategy.set_precision(precision);
    const Sequential net({Conv2D{.filters = 8,
                                 .kernel_size = 3,
                                 .padding = layers::Padding::kSame,
                                 .activation = "relu"},
                          MaxPooling2D{}, BatchNormalization{}, AveragePooling2D{}, Flatten{},
                          Dense{.units = 10}});
    const auto model = strategy.create(net, at::ones({1, 1, 28, 28}));
    const auto losses = losses_of(strategy, model, 6);
    EXPECT_LT(losses.back(), losses.front()) << device::to_string(precision);
  }
}

TEST(LowPrecision, SlimLossesAreFloat) {
  MirroredStrategy strategy(distribute::cpus(1));
  strategy.set_precision(Precision::kBf16);
  namespace losses = layers::v1::losses;
  strategy.run([](distribute::ReplicaContext&) {
    const at::Tensor logits = at::linear(at::ones({4, 3}), at::ones({5, 3}));
    ASSERT_EQ(logits.scalar_type(), at::kBFloat16);
    const at::Tensor labels = at::full({4, 5}, 0.2F);
    for (const at::Tensor& loss :
         {losses::softmax_cross_entropy(logits, labels),
          losses::sigmoid_cross_entropy(logits, labels), losses::log_loss(logits / 8, labels),
          losses::hinge_loss(logits, labels), losses::absolute_difference(logits, labels),
          losses::mean_squared_error(logits, labels), losses::huber_loss(logits, labels),
          losses::cosine_distance(logits, labels, 1),
          losses::mean_pairwise_squared_error(logits, labels),
          losses::compute_weighted_loss(logits),
          layers::losses::categorical_crossentropy(logits, labels)})
      EXPECT_EQ(loss.scalar_type(), at::kFloat);
  });
}

struct Scale : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) const { return at::linear(x, weight); }
  at::Tensor weight = register_parameter("weight", at::ones({1, 1}));
};

// libtorch's cache of casts would have the weights of the first step.
TEST(LowPrecision, UsesTheWeightsOfTheStep) {
  const device::AutocastScope around_all_steps(Precision::kBf16);
  for (const int replicas : {1, 2}) {
    MirroredStrategy strategy(distribute::cpus(replicas));
    strategy.set_precision(Precision::kBf16);
    const auto model = strategy.create<Scale>();
    const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 1.0});
    std::vector<float> results;
    for (int step = 0; step < 3; ++step) {
      const auto found = strategy.run([&](distribute::ReplicaContext&) {
        const at::Tensor y = model(at::ones({1, 1}));
        sgd.minimize(y.sum(), distribute::LossScale::kAlreadyScaled);
        return y.detach();
      });
      for (const at::Tensor& result : found.values())
        EXPECT_EQ(result.item<float>(), found[0].item<float>());
      results.push_back(found[0].item<float>());
    }
    const auto less = static_cast<float>(replicas);
    EXPECT_EQ(results, (std::vector<float>{1, 1 - less, 1 - 2 * less}));
  }
}

// Nor does it outlive a run in which a function casts by itself.
TEST(LowPrecision, ClearsTheCacheOfAFunctionsOwnAutocast) {
  MirroredStrategy strategy(distribute::cpus(1));
  const auto model = strategy.create<Scale>();
  const auto step = [&] {
    const auto found = strategy.run([&](distribute::ReplicaContext&) {
      at::autocast::set_autocast_enabled(c10::kCPU, true);
      const at::Tensor y = model(at::ones({1, 1}));
      at::autocast::set_autocast_enabled(c10::kCPU, false);
      return y.detach();
    });
    return found[0].item<float>();
  };
  EXPECT_EQ(step(), 1);
  model.variables()[0].assign(at::full({1, 1}, 3.0F));
  EXPECT_EQ(step(), 3);
}

TEST(LowPrecision, AnOverflowInOneWorkerIsLeftOutByAll) {
  std::mutex mutex;
  std::vector<at::Tensor> weights;
  distribute::run_workers({2, 1}, [&](distribute::MultiWorkerMirroredStrategy& strategy) {
    const auto model = strategy.create<Scale>();
    const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.25},
                                        {.gradient_scaler = distribute::GradientScalerOptions{}});
    for (int step = 0; step < 4; ++step) {
      strategy.run([&](distribute::ReplicaContext& context) {
        const bool overflows = step == 1 && context.replica_id() == 2;
        const at::Tensor y = model(at::ones({1, 1})) * (overflows ? INFINITY : 1.0F);
        sgd.minimize(y.sum(), distribute::LossScale::kAlreadyScaled);
      });
      EXPECT_EQ(sgd.was_skipped(), step == 1);
    }
    EXPECT_EQ(sgd.updates(), 3);
    EXPECT_EQ(sgd.gradient_scale(), 32768);
    const std::lock_guard lock(mutex);
    weights.push_back(model.variables()[0].read());
  });
  ASSERT_EQ(weights.size(), 2U);
  for (const at::Tensor& weight : weights)
    EXPECT_EQ(weight.item<float>(), 1 - 3 * 3 * 0.25F) << "three updates of three replicas";
}

}  // namespace
}  // namespace brigade::parity
