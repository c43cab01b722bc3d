#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <chrono>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/distribute/optimizer/gradient_synchronizer.h"
#include "brigade/distribute/testing/card_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

using device::testing::FakeDevice;

[[maybe_unused]] const FakeDevice& registered_before_backward = FakeDevice::get();

/// Four layers, of which the second is left out now and then.
struct DeepOnCard : torch::nn::Module {
  DeepOnCard() {
    for (int i = 0; i < 4; ++i) {
      weights.push_back(register_parameter(
          "weight" + std::to_string(i),
          (at::linspace(-1, 1, 9, at::kDouble) * (i + 1)).view({3, 3}).to(card())));
      biases.push_back(
          register_parameter("bias" + std::to_string(i), at::zeros({3}, at::kDouble).to(card())));
    }
  }
  static c10::Device card() { return FakeDevice::device(); }
  at::Tensor forward(at::Tensor x, bool skips_second = false) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (i == 1 && skips_second) continue;
      x = at::addmm(biases[i], x, weights[i]).tanh();
      if (i == 0 && fails)
        x.register_hook([](const at::Tensor&) {  // after the gradients of the other layers
          throw Error(ErrorCode::kDataLoss, "the backward gave up");
        });
    }
    return x;
  }
  bool fails = false;
  std::vector<at::Tensor> weights, biases;
};

enum class Storing { kEach, kShared };

StrategyParts overlapped(int replicas, Storing copies, std::int64_t bytes_per_bucket) {
  StrategyParts parts = mirrored_parts("card", logical_cards(replicas));
  parts.storage = variables::make_flat_storage_factory(
      copies == Storing::kShared ? variables::StorageSharing::kOneStorage
                                 : variables::StorageSharing::kOneCopyEach);
  parts.synchronizer = overlapped_synchronizer({.bytes_per_bucket = bytes_per_bucket});
  return parts;
}

StrategyParts reduced_after_backward(int replicas) {
  StrategyParts parts = overlapped(replicas, Storing::kEach, 0);
  parts.synchronizer = make_replica_synchronizer;
  return parts;
}

/// Threads that are delayed at random, so that replicas meet in every order.
class Delays {
 public:
  explicit Delays(unsigned seed) : random_(seed) {}
  void wait() {
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
    if (random_() % 3 == 0) FakeDevice::get().run_other_streams();
  }

 private:
  std::minstd_rand random_;
};

/// A rule whose products are exact. The fake device computes with the CPU's fused kernels, which
/// round the end of a range in another way than the rest (`optim/whole_vectors.h`), and the ranges
/// of an update depend on the synchronizer.
optim::UpdateRulePtr exact_rule() {
  return optim::Sgd{.learning_rate = 0.125, .momentum = 0.5}.rule();
}

/// The outputs after each update, and the weights in the end, of all replicas.
std::vector<at::Tensor> weights_on_card(StrategyParts parts, unsigned seed = 1,
                                        const optim::UpdateRulePtr& rule = exact_rule()) {
  CardStrategy strategy(std::move(parts));
  auto model = strategy.create<DeepOnCard>();
  auto optimizer = strategy.make_optimizer(model.variables(), rule);
  std::vector<Delays> delays;
  for (int replica = 0; replica < strategy.num_replicas_in_sync(); ++replica)
    delays.emplace_back(seed * 31 + static_cast<unsigned>(replica));
  std::vector<std::vector<at::Tensor>> after_update(delays.size());
  for (int step = 0; step < 6; ++step) {
    strategy.run([&](ReplicaContext& context) {
      const auto replica = static_cast<std::size_t>(context.replica_id());
      delays[replica].wait();
      const at::Tensor x = at::linspace(-1, 1 + step + static_cast<int>(replica), 12, at::kDouble)
                               .view({4, 3})
                               .to(DeepOnCard::card());
      const bool skips = step % 2 == 1 && (replica == 0 || step == 3);
      const at::Tensor loss = model->forward(x, skips).square().sum();
      delays[replica].wait();
      optimizer.minimize(loss, LossScale::kSum);
      const at::NoGradGuard no_grad;
      after_update[replica].push_back(model->forward(x));  // with the updated weights
      delays[replica].wait();
    });
  }
  std::vector<at::Tensor> weights;
  for (const auto& of_replica : after_update) {
    for (const at::Tensor& each : of_replica) weights.push_back(FakeDevice::read(each));
  }
  for (const auto& variable : model.variables()) {
    for (int replica = 0; replica < variable.num_components(); ++replica)
      weights.push_back(FakeDevice::read(variable.component(replica).detach()));
  }
  return weights;
}

void expect_equal_weights(const std::vector<at::Tensor>& ours,
                          const std::vector<at::Tensor>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(ours[i].equal(theirs[i])) << i << "\n" << ours[i] << "\n" << theirs[i];
}

TEST(OverlappedSynchronizer, HasTheBitsOfAReductionAfterBackward) {
  for (const int replicas : {2, 3}) {
    const auto expected = weights_on_card(reduced_after_backward(replicas));
    for (const std::int64_t bytes : {1, 1 << 20}) {
      for (const Storing copies : {Storing::kEach, Storing::kShared})
        expect_equal_weights(weights_on_card(overlapped(replicas, copies, bytes)), expected);
    }
  }
}

TEST(OverlappedSynchronizer, OneUpdateOfASharedCopyHasTheBitsOfAnUpdateOfEachCopy) {
  const auto adam = optim::Adam{.learning_rate = 0.1}.rule();
  expect_equal_weights(weights_on_card(overlapped(3, Storing::kShared, 1), 1, adam),
                       weights_on_card(overlapped(3, Storing::kEach, 1), 1, adam));
}

TEST(OverlappedSynchronizer, DelaysOfReplicasAndStreamsChangeNoBit) {
  const auto expected = weights_on_card(reduced_after_backward(3));
  for (unsigned seed = 2; seed < 8; ++seed) {
    const Storing copies = seed % 2 == 0 ? Storing::kEach : Storing::kShared;
    expect_equal_weights(weights_on_card(overlapped(3, copies, 1), seed), expected);
  }
}

TEST(OverlappedSynchronizer, LogicalGpusOfOneCardHaveOneCopyAndOneUpdate) {
  CardStrategy strategy(3);
  auto model = strategy.create<DeepOnCard>();
  auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 0.125});
  const variables::Variable& first = model.variables().front();
  EXPECT_EQ(first.storage()->masters(), 1);
  EXPECT_EQ(first.component(0).const_data_ptr(), first.component(2).const_data_ptr());
  EXPECT_EQ(adam.state().slot(0, 0, 0).const_data_ptr(),
            adam.state().slot(0, 0, 2).const_data_ptr());
  strategy.run([&] {
    adam.minimize(model->forward(at::full({2, 3}, 0.5, at::kDouble).to(DeepOnCard::card())).sum(),
                  LossScale::kSum);
  });
  EXPECT_EQ(adam.state().step(0), 1);
}

TEST(OverlappedSynchronizer, AReplicaThatFailsReleasesTheOthersAndTheNextStepWorks) {
  for (const Storing copies : {Storing::kEach, Storing::kShared}) {
    CardStrategy strategy(overlapped(3, copies, 1));
    auto model = strategy.create<DeepOnCard>();
    auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 0.125});
    const auto step = [&](int failing) {
      strategy.run([&](ReplicaContext& context) {
        const at::Tensor x = at::full({2, 3}, 0.5, at::kDouble).to(DeepOnCard::card());
        model->fails = failing == context.replica_id();
        adam.minimize(model->forward(x).sum(), LossScale::kSum);
        if (failing == 10 + context.replica_id())
          throw Error(ErrorCode::kDataLoss, "the step gave up");
      });
    };
    step(-1);
    for (const int failing : {0, 1, 2, 10, 12}) {
      const Error error = error_from([&] { step(failing); });
      EXPECT_TRUE(mentions(error, "gave up")) << error.what();
      step(-1);
    }
    EXPECT_GE(adam.state().step(0), 6);
  }
}

TEST(OverlappedSynchronizer, SumsCanBeChangedBeforeTheyAreApplied) {
  std::vector<std::vector<at::Tensor>> weights;
  for (const bool overlaps : {false, true}) {
    CardStrategy strategy(overlaps ? overlapped(2, Storing::kShared, 1)
                                   : reduced_after_backward(2));
    auto model = strategy.create<DeepOnCard>();
    auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 0.125});
    strategy.run([&] {
      const at::Tensor loss =
          model->forward(at::full({2, 3}, 0.5, at::kDouble).to(DeepOnCard::card())).sum();
      Gradients gradients = adam.aggregate(adam.compute_gradients(loss, LossScale::kSum));
      for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i].mul_(0.5);
      adam.apply_gradients(gradients);
    });
    auto& own = weights.emplace_back();
    for (const auto& variable : model.variables())
      own.push_back(FakeDevice::read(variable.component(1).detach()));
  }
  expect_equal_weights(weights[1], weights[0]);
}

/// How often the host waits for the card in a step.
int waits_of_step(const OptimizerOptions& options) {
  CardStrategy strategy;
  auto model = strategy.create<DeepOnCard>();
  auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 0.125}, options);
  const at::Tensor x = at::full({2, 3}, 0.5, at::kDouble).to(DeepOnCard::card());
  int before = 0;
  for (int step = 0; step < 3; ++step) {
    before = FakeDevice::get().host_waits();
    strategy.run([&] { adam.minimize(model->forward(x).sum(), LossScale::kSum); });
  }
  EXPECT_EQ(adam.updates(), 3);
  return FakeDevice::get().host_waits() - before;
}

TEST(OptimizerOnACard, WaitsForTheCardOnlyIfAGradientScalerDecidesAndThenOnce) {
  EXPECT_EQ(waits_of_step({}), 0);
  EXPECT_EQ(waits_of_step({.gradient_scaler = GradientScalerOptions{}}), 1);
}

}  // namespace
}  // namespace brigade::distribute
