#include "brigade/layers/sync_batch_norm.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <numeric>

#include "brigade/base/ambient.h"
#include "brigade/base/error.h"
#include "brigade/comm/replica.h"
#include "brigade/comm/testing/rank_threads.h"
#include "brigade/layers/sync_batch_norm_function.h"

namespace brigade::layers {
namespace {

constexpr std::int64_t kChannels = 3;

/// Makes the calling thread one of the replicas, a rank.
struct InReplica {
  explicit InReplica(comm::Communicator& ranks)
      : replica{ranks.rank(), ranks.world_size(), ranks.rank(), &ranks},
        scope(comm::kReplicaSlot, &replica) {}
  comm::Replica replica;
  base::AmbientScope<const comm::Replica> scope;
};

/// [count, 3, 2, 2] values far from 0.
at::Tensor images(std::int64_t count) {
  return at::arange(count * kChannels * 4, at::kDouble).sin().view({count, kChannels, 2, 2}) * 3 +
         50.0;
}

at::Tensor rank_batch(const at::Tensor& all, const std::vector<std::int64_t>& sizes, int rank) {
  const auto begin = std::accumulate(sizes.begin(), sizes.begin() + rank, std::int64_t{0});
  return all.narrow(0, begin, sizes[static_cast<std::size_t>(rank)]);
}

/// A module with non-trivial weights, in float64.
template <class Module>
Module with_weights(const torch::nn::BatchNormOptions& options) {
  Module module(options);
  const at::NoGradGuard no_gradients;
  // Module::to fails on parameters that the options leave undefined.
  for (at::Tensor* tensor :
       {&module->weight, &module->bias, &module->running_mean, &module->running_var}) {
    if (tensor->defined()) tensor->set_data(tensor->to(at::kDouble));
  }
  if (options.affine()) {
    module->weight.copy_(at::arange(1, kChannels + 1, at::kDouble) / 2);
    module->bias.copy_(at::arange(kChannels, at::kDouble) - 1);
  }
  return module;
}

/// The results, gradients and statistics of two training steps.
struct Trace {
  std::vector<at::Tensor> results, of_inputs;
  at::Tensor of_weight, of_bias, mean, variance;
};

at::Tensor loss_of(const at::Tensor& result, const at::Tensor& weights) {
  return (result * weights).tanh().sum();
}

template <class Module>
Trace two_steps(Module& module, const std::function<at::Tensor(const at::Tensor&)>& share) {
  Trace trace;
  for (const double factor : {1.0, 1.3}) {
    const at::Tensor x = share(images(6) * factor).clone().set_requires_grad(true);
    const at::Tensor result = module->forward(x);
    loss_of(result, share(images(6).cos())).backward();
    trace.results.push_back(result.detach());
    trace.of_inputs.push_back(x.grad());
  }
  trace.of_weight = module->weight.defined() ? module->weight.grad() : at::zeros({1}, at::kDouble);
  trace.of_bias = module->bias.defined() ? module->bias.grad() : at::zeros({1}, at::kDouble);
  trace.mean = module->running_mean;
  trace.variance = module->running_var;
  return trace;
}

void expect_near(const at::Tensor& found, const at::Tensor& wanted, const std::string& what) {
  ASSERT_EQ(found.sizes(), wanted.sizes()) << what;
  EXPECT_TRUE(at::allclose(found, wanted, 1e-11, 1e-11)) << what << found << wanted;
}

/// `sizes.size()` ranks give what libtorch gives on the whole batch.
void expect_as_whole(const std::vector<std::int64_t>& sizes,
                     const torch::nn::BatchNormOptions& options) {
  auto whole = with_weights<torch::nn::BatchNorm2d>(options);
  const Trace wanted = two_steps(whole, [](const at::Tensor& all) { return all; });
  const int world = static_cast<int>(sizes.size());
  std::vector<Trace> found(sizes.size());
  comm::run_ranks_successfully(world, [&](comm::Communicator& ranks) {
    const InReplica replica(ranks);
    auto module = with_weights<SyncBatchNorm>(options);
    found[static_cast<std::size_t>(ranks.rank())] = two_steps(
        module, [&](const at::Tensor& all) { return rank_batch(all, sizes, ranks.rank()); });
  });
  at::Tensor of_weight = at::zeros_like(wanted.of_weight);
  at::Tensor of_bias = at::zeros_like(wanted.of_bias);
  for (int rank = 0; rank < world; ++rank) {
    const Trace& own = found[static_cast<std::size_t>(rank)];
    for (std::size_t step = 0; step < 2; ++step) {
      expect_near(own.results[step], rank_batch(wanted.results[step], sizes, rank), "result");
      expect_near(own.of_inputs[step], rank_batch(wanted.of_inputs[step], sizes, rank), "gradient");
    }
    of_weight = of_weight + own.of_weight;
    of_bias = of_bias + own.of_bias;
    if (!options.track_running_stats()) continue;
    expect_near(own.mean, wanted.mean, "running_mean");
    expect_near(own.variance, wanted.variance, "running_var");
    EXPECT_TRUE(own.mean.equal(found[0].mean) && own.variance.equal(found[0].variance));
  }
  expect_near(of_weight, wanted.of_weight, "weight");
  expect_near(of_bias, wanted.of_bias, "bias");
}

TEST(SyncBatchNorm, RanksEqualTheWholeBatch) {
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{{6}, {3, 3}, {5, 1}, {2, 0, 4}, {0, 6}, {1, 2, 0, 3}})
    expect_as_whole(sizes, torch::nn::BatchNormOptions(kChannels));
}

TEST(SyncBatchNorm, FollowsTheOptions) {
  const torch::nn::BatchNormOptions plain(kChannels);
  for (const auto& options : {torch::nn::BatchNormOptions(plain).momentum(std::nullopt),
                              torch::nn::BatchNormOptions(plain).momentum(0.5).eps(0.1),
                              torch::nn::BatchNormOptions(plain).affine(false),
                              torch::nn::BatchNormOptions(plain).track_running_stats(false)})
    expect_as_whole({4, 2}, options);
}

TEST(SyncBatchNorm, WithOneReplicaAndInEvaluationEqualsLibtorch) {
  const torch::nn::BatchNormOptions options(kChannels);
  auto plain = with_weights<torch::nn::BatchNorm2d>(options);
  auto ours = with_weights<SyncBatchNorm>(options);
  EXPECT_TRUE(ours->forward(images(4)).equal(plain->forward(images(4))));
  EXPECT_TRUE(ours->running_var.equal(plain->running_var));
  plain->eval();
  ours->eval();
  comm::run_ranks_successfully(2, [&](comm::Communicator& ranks) {
    const InReplica replica(ranks);
    // No collective: the other rank does not take part.
    if (ranks.rank() == 1) return;
    EXPECT_TRUE(ours->forward(images(2)).equal(plain->forward(images(2))));
  });
}

TEST(SyncBatchNorm, NormalizesNarrowTypesByStatisticsInFloat) {
  comm::run_ranks_successfully(2, [](comm::Communicator& ranks) {
    const InReplica replica(ranks);
    SyncBatchNorm module{torch::nn::BatchNormOptions(kChannels)};
    const at::Tensor all = images(6);
    const at::Tensor x = rank_batch(all, {4, 2}, ranks.rank()).to(at::kBFloat16).requires_grad_();
    const at::Tensor result = module->forward(x);
    EXPECT_EQ(result.scalar_type(), at::kBFloat16);
    result.to(at::kFloat).square().sum().backward();
    EXPECT_EQ(x.grad().scalar_type(), at::kBFloat16);
    const at::Tensor mean = all.to(at::kBFloat16).to(at::kFloat).mean({0, 2, 3});
    EXPECT_TRUE(at::allclose(module->running_mean, mean * 0.1, 1e-5, 1e-5));
  });
}

TEST(SyncBatchNorm, RefusesInvalidInputs) {
  SyncBatchNorm alone{torch::nn::BatchNormOptions(kChannels)};
  EXPECT_THROW(alone->forward(at::ones({4})), Error);
  comm::run_ranks_successfully(2, [](comm::Communicator& ranks) {
    const InReplica replica(ranks);
    SyncBatchNorm module{torch::nn::BatchNormOptions(kChannels)};
    EXPECT_THROW(module->forward(at::ones({4, kChannels + 1})), Error);
    EXPECT_THROW(module->forward(at::ones({1 - ranks.rank(), kChannels})), Error)
        << "one value has no variance";
    EXPECT_EQ(module->num_batches_tracked.item<std::int64_t>(), 0);
  });
}

TEST(ConvertSyncBatchNorm, ReplacesTheBatchNormsOfASequential) {
  torch::nn::BatchNorm1d norm(torch::nn::BatchNorm1dOptions(2).momentum(0.3));
  norm->running_mean.fill_(7);
  norm->weight.set_requires_grad(false);
  torch::nn::Sequential plain;
  plain->push_back("fc", torch::nn::Linear(2, 2));
  plain->push_back("norm", norm);
  plain->eval();
  const torch::nn::Sequential found = convert_sync_batch_norm(plain);
  ASSERT_EQ(found->named_parameters().keys(), plain->named_parameters().keys());
  ASSERT_EQ(found->named_buffers().keys(), plain->named_buffers().keys());
  EXPECT_EQ(found->ptr(0), plain->ptr(0));
  const auto* ours = found->ptr(1)->as<SyncBatchNorm>();
  ASSERT_TRUE(ours);
  EXPECT_EQ(ours->options.momentum(), 0.3);
  EXPECT_EQ(ours->running_mean[0].item<float>(), 7);
  EXPECT_FALSE(ours->weight.requires_grad());
  EXPECT_FALSE(ours->is_training());
}

struct BlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return norm->forward(x); }
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(2));
};
TORCH_MODULE(Block);

TEST(ConvertSyncBatchNorm, RefusesABatchNormThatIsALayersMember) {
  try {
    convert_sync_batch_norm(torch::nn::Sequential(Block()));
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'norm'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace brigade::layers
