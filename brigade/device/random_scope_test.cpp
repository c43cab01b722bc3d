#include "brigade/device/random_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/ThreadLocalState.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/dropout.h>
#include <torch/nn/modules/dropout.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace brigade::device {
namespace {

struct Draw {
  std::string name;
  std::function<at::Tensor()> call;
};

at::Tensor dropout_gradient() {
  const at::Tensor input = at::ones({64}).requires_grad_();
  torch::nn::functional::dropout(input, torch::nn::functional::DropoutFuncOptions().p(0.5))
      .sum()
      .backward();
  return input.grad();
}

std::vector<Draw> draws() {
  namespace F = torch::nn::functional;
  return {
      {"dropout", [] { return F::dropout(at::ones({64}), F::DropoutFuncOptions().p(0.5)); }},
      {"dropout in place",
       [] {
         at::Tensor t = at::ones({64});
         return at::dropout_(t, 0.5, true);
       }},
      {"dropout module",
       [] {
         return torch::nn::Dropout(0.5)->forward(at::ones({8, 8}));
       }},
      {"dropout2d",
       [] {
         return torch::nn::Dropout2d(0.5)->forward(at::ones({4, 16, 2, 2}));
       }},
      {"alpha_dropout",
       [] {
         return F::alpha_dropout(at::ones({64}),
                                 F::AlphaDropoutFuncOptions().p(0.5).training(true));
       }},
      {"native_dropout", [] { return std::get<0>(at::native_dropout(at::ones({64}), 0.5, true)); }},
      {"dropout gradient", dropout_gradient},
      {"randn", [] { return at::randn({64}); }},
      {"randn_like", [] { return at::randn_like(at::ones({64}, at::kDouble)); }},
      {"rand", [] { return at::rand({64}); }},
      {"randint", [] { return at::randint(1000, {64}); }},
      {"randperm", [] { return at::randperm(64); }},
      {"bernoulli", [] { return at::bernoulli(at::full({64}, 0.5)); }},
      {"bernoulli_", [] { return at::empty({64}).bernoulli_(0.5); }},
      {"normal_", [] { return at::empty({64}).normal_(); }},
      {"normal", [] { return at::normal(at::zeros({64}), 1.0); }},
      {"uniform_", [] { return at::empty({64}).uniform_(); }},
      {"multinomial", [] { return at::multinomial(at::ones({64}), 32, false); }},
      {"poisson", [] { return at::poisson(at::full({64}, 9.0)); }},
      {"exponential_", [] { return at::empty({64}).exponential_(); }},
      {"rrelu", [] { return at::rrelu(at::full({64}, -1.0), 0.1, 0.9, true); }},
      {"rand out",
       [] {
         at::Tensor out = at::empty({64});
         return at::rand_out(out, {64});
       }},
  };
}

at::Tensor draw_at(const Draw& draw, std::uint64_t seed, std::uint64_t replica,
                   std::uint64_t step) {
  ReplicaGenerator generator(seed, replica);
  generator.begin_step(step);
  const RandomScope scope(generator);
  return draw.call();
}

TEST(RandomScope, RepeatsEveryKindOfDrawForSeedReplicaAndStep) {
  for (const auto& draw : draws()) {
    const at::Tensor first = draw_at(draw, 1, 0, 5);
    draw.call();  // the default generator moves on meanwhile
    EXPECT_TRUE(draw_at(draw, 1, 0, 5).equal(first)) << draw.name;
    EXPECT_FALSE(draw_at(draw, 2, 0, 5).equal(first)) << draw.name << ": another seed";
    EXPECT_FALSE(draw_at(draw, 1, 1, 5).equal(first)) << draw.name << ": another replica";
    EXPECT_FALSE(draw_at(draw, 1, 0, 6).equal(first)) << draw.name << ": another step";
  }
}

TEST(RandomScope, LeavesTheDefaultGeneratorUntouched) {
  for (const auto& draw : draws()) {
    at::manual_seed(11);
    const at::Tensor expected = at::rand({8});
    at::manual_seed(11);
    draw_at(draw, 1, 0, 0);
    EXPECT_TRUE(at::rand({8}).equal(expected)) << draw.name;
  }
}

TEST(RandomScope, HonorsAnExplicitGenerator) {
  ReplicaGenerator replica(1, 0);
  const RandomScope scope(replica);
  at::Generator own = at::make_generator<at::CPUGeneratorImpl>(99);
  const at::Tensor first = at::rand({8}, own);
  own.set_current_seed(99);
  EXPECT_TRUE(at::rand({8}, own).equal(first));
  own.set_current_seed(99);
  EXPECT_TRUE(at::empty({8}).uniform_(0, 1, own).equal(first));
}

TEST(RandomScope, KeepsReplicasOnTwoThreadsApart) {
  const auto replica_run = [](std::uint64_t replica, at::Tensor& result) {
    ReplicaGenerator generator(3, replica);
    const RandomScope scope(generator);
    std::vector<at::Tensor> pieces;
    for (std::uint64_t step = 0; step < 20; ++step) {
      generator.begin_step(step);
      for (const auto& draw : draws()) pieces.push_back(draw.call().to(at::kDouble).flatten());
    }
    result = at::cat(pieces);
  };
  std::vector<at::Tensor> first(2);
  for (int run = 0; run < 20; ++run) {
    std::vector<at::Tensor> results(2);
    std::thread other(replica_run, 1, std::ref(results[1]));
    replica_run(0, results[0]);
    other.join();
    EXPECT_FALSE(results[0].equal(results[1]));
    if (run == 0) first = results;
    EXPECT_TRUE(results[0].equal(first[0]) && results[1].equal(first[1])) << "run " << run;
  }
}

TEST(RandomScope, NestsAndEnds) {
  ReplicaGenerator outer(1, 0);
  ReplicaGenerator inner(1, 1);
  const auto alone = [](std::uint64_t replica) {
    ReplicaGenerator generator(1, replica);
    const RandomScope scope(generator);
    return std::pair{at::rand({8}), at::rand({8})};
  };
  const auto [outer_first, outer_second] = alone(0);
  const auto [inner_first, inner_second] = alone(1);
  {
    const RandomScope scope(outer);
    EXPECT_TRUE(at::rand({8}).equal(outer_first));
    {
      const RandomScope nested(inner);
      EXPECT_TRUE(at::rand({8}).equal(inner_first));
    }
    EXPECT_TRUE(at::rand({8}).equal(outer_second));
  }
  EXPECT_EQ(kGeneratorSlot.get(), nullptr);
  at::manual_seed(5);
  const at::Tensor expected = at::rand({8});
  at::manual_seed(5);
  EXPECT_TRUE(at::rand({8}).equal(expected)) << "outside, the default generator is back";
}

TEST(RandomScope, WorksInsideAnInstalledThreadState) {
  const at::ThreadLocalState callers;
  const Draw draw = draws().front();
  const at::Tensor expected = draw_at(draw, 1, 2, 3);
  at::Tensor drawn;
  std::thread([&] {
    const at::ThreadLocalStateGuard state(callers);
    drawn = draw_at(draw, 1, 2, 3);
  }).join();
  EXPECT_TRUE(drawn.equal(expected));
}

TEST(RandomScope, ToleratesAThreadStateWithoutItsGenerator) {
  ReplicaGenerator generator(1, 0);
  const RandomScope scope(generator);
  const at::ThreadLocalState inside;
  std::thread([&] {
    const at::ThreadLocalStateGuard state(inside);
    EXPECT_EQ(at::rand({8}).size(0), 8);
  }).join();
}

TEST(RandomScope, MasksTheGradientLikeTheOutput) {
  ReplicaGenerator generator(1, 0);
  const RandomScope scope(generator);
  const at::Tensor input = at::ones({256}).requires_grad_();
  const at::Tensor output =
      torch::nn::functional::dropout(input, torch::nn::functional::DropoutFuncOptions().p(0.25));
  output.sum().backward();
  EXPECT_TRUE(input.grad().equal(output.detach()));
  EXPECT_NEAR((output == 0).sum().item<double>(), 64, 25);
}

TEST(RandomScope, LeavesTensorsOfOtherDevicesAlone) {
  ReplicaGenerator generator(1, 0);
  const RandomScope scope(generator);
  EXPECT_EQ(at::randn({4}, at::TensorOptions().device(at::kMeta)).size(0), 4);
}

TEST(ReplayScope, KeepsRunningStatisticsOfBatchNorm) {
  ReplicaGenerator generator(1, 0);
  const at::Tensor x = at::arange(24, at::kFloat).sin().view({4, 3, 2});
  const auto normalize = [&](const at::Tensor& mean, const at::Tensor& variance) {
    return at::batch_norm(x, {}, {}, mean, variance, /*training=*/true, 0.1, 1e-5, false);
  };
  at::Tensor mean = at::zeros({3}), variance = at::ones({3});
  const at::Tensor wanted = normalize(mean.clone(), variance.clone());
  {
    const ReplayScope scope(generator.fork());
    EXPECT_TRUE(normalize(mean, variance).equal(wanted));
    EXPECT_TRUE(normalize({}, {}).equal(wanted));
  }
  EXPECT_TRUE(mean.equal(at::zeros({3})) && variance.equal(at::ones({3})));
  const RandomScope scope(generator);
  EXPECT_TRUE(normalize(mean, variance).equal(wanted));
  EXPECT_FALSE(mean.equal(at::zeros({3})) || variance.equal(at::ones({3})));
}

}  // namespace
}  // namespace brigade::device
