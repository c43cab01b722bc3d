#include "brigade/layers/recompute.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>

#include <functional>
#include <optional>
#include <stdexcept>

#include "brigade/base/error.h"
#include "brigade/comm/differentiable.h"
#include "brigade/comm/replica.h"
#include "brigade/comm/testing/rank_threads.h"
#include "brigade/device/autocast_scope.h"
#include "brigade/device/device_scope.h"
#include "brigade/device/random_scope.h"
#include "brigade/layers/basic_layers.h"
#include "brigade/layers/end_points.h"
#include "brigade/layers/normalization.h"
#include "brigade/layers/sync_batch_norm.h"
#include "brigade/variables/get_variable.h"

namespace brigade::layers {
namespace {

using variables::Graph;

/// How a part of a network is called.
using Part = std::function<at::Tensor(const at::Tensor&)>;
enum class Call { kPlain, kRecomputed };

at::Tensor called(Call call, const Part& part, const at::Tensor& x) {
  return call == Call::kPlain ? part(x) : recompute(part, x);
}

at::Tensor wave(at::IntArrayRef sizes) {
  return at::arange(c10::multiply_integers(sizes), at::kFloat).mul(0.37).sin().view(sizes);
}

at::Tensor leaf(at::IntArrayRef sizes) {
  return wave(sizes).requires_grad_();
}

std::vector<at::Tensor> gradients(const at::Tensor& loss, const std::vector<at::Tensor>& of) {
  return torch::autograd::grad({loss}, of, {}, std::nullopt, false, /*allow_unused=*/true);
}

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::equal(found[i], wanted[i])) << "tensor " << i;
}

std::string error_of(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Recompute, GivesTheBitsOfThePlainCall) {
  const at::Tensor first = leaf({8, 5}), second = leaf({3, 8}), bias = leaf({8});
  const auto part = [&](const at::Tensor& x) {
    return at::linear(at::tanh(at::linear(x, first, bias)), second);
  };
  for (const bool needs_gradient : {true, false}) {
    const at::Tensor data = wave({4, 5}).requires_grad_(needs_gradient);
    std::vector<std::vector<at::Tensor>> found;
    for (const Call call : {Call::kPlain, Call::kRecomputed}) {
      const at::Tensor result = called(call, part, needs_gradient ? data * 2 : data);
      std::vector<at::Tensor> of = {first, second, bias};
      if (needs_gradient) of.push_back(data);
      found.push_back(gradients(result.square().sum(), of));
      found.back().push_back(result);
    }
    expect_equal(found[1], found[0]);
  }
}

TEST(Recompute, TakesAndReturnsSeveralTensors) {
  const at::Tensor a = leaf({3}), b = leaf({3}), integral = at::arange(3, at::kLong);
  const auto part = [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& numbers) {
    return std::tuple{x * y, (x + y).exp(), numbers + 1};
  };
  const auto [product, sum, numbers] = recompute(part, a, b, integral);
  EXPECT_TRUE(numbers.equal(integral + 1));
  EXPECT_FALSE(numbers.requires_grad());
  // A result that the loss does not depend on has no gradient to give.
  expect_equal(gradients(product.sum(), {a, b}), {b, a});
  const auto list = recompute(
      [](const at::Tensor& x) {
        return std::vector<at::Tensor>{x * 2, x, at::Tensor()};
      },
      a);
  ASSERT_EQ(list.size(), 3U);
  EXPECT_FALSE(list[2].defined());
  expect_equal(gradients((list[0] * list[1]).sum(), {a}), {a * 4});
}

TEST(Recompute, CallsTheFunctionTwice) {
  int calls = 0;
  const at::Tensor x = leaf({3});
  const at::Tensor y = recompute(
      [&](const at::Tensor& in) {
        ++calls;
        return in.exp();
      },
      x);
  EXPECT_EQ(calls, 1);
  y.sum().backward();
  EXPECT_EQ(calls, 2);
  const at::NoGradGuard no_gradients;
  EXPECT_FALSE(recompute([&](const at::Tensor& in) { return in.exp(); }, x).requires_grad());
}

TEST(Recompute, DrawsTheSameRandomNumbers) {
  const at::Tensor x = at::ones({64}).requires_grad_();
  const Part part = [](const at::Tensor& in) { return at::dropout(in, 0.5, true) * 3; };
  const auto check = [&] {
    const at::Tensor before = at::rand({1});
    const at::Tensor y = recompute(part, x);
    const at::Tensor between = at::rand({4});
    // The gradient is 6 where the mask of the forward pass was 1.
    expect_equal(gradients(y.sum(), {x}), {y.detach()});
    // Backward leaves the generator as it is.
    EXPECT_FALSE(at::rand({4}).equal(between));
  };
  check();
  device::ReplicaGenerator generator(5, 1);
  const device::RandomScope scope(generator);
  check();
  generator.begin_step(3);
  const at::Tensor y = recompute(part, x);
  const at::Tensor next = at::rand({4});
  generator.begin_step(3);
  const at::Tensor again = part(x);
  gradients(y.sum(), {x});
  EXPECT_TRUE(at::rand({4}).equal(next)) << "the second call drew from the replica's generator";
  EXPECT_TRUE(again.equal(y));
}

TEST(Recompute, CanBeNested) {
  const at::Tensor weight = leaf({4, 4}), x = leaf({2, 4});
  const Part layer = [&](const at::Tensor& in) {
    return at::dropout(at::tanh(at::linear(in, weight)), 0.3, true);
  };
  const auto network = [&](Call call) {
    device::ReplicaGenerator generator(1, 0);
    const device::RandomScope scope(generator);
    const Part two = [&, call](const at::Tensor& in) {
      return called(call, layer, called(call, layer, in));
    };
    const at::Tensor y = called(call, two, called(call, two, x));
    std::vector<at::Tensor> found = gradients(y.sum(), {x});
    found.push_back(y);
    return found;
  };
  expect_equal(network(Call::kRecomputed), network(Call::kPlain));
}

TEST(Recompute, GivesGradientsToTensorsFromOutside) {
  const at::Tensor x = leaf({4}), weight = leaf({4});
  const auto network = [&](Call call) {
    const at::Tensor gate = at::sigmoid(weight * 2);  // with a graph of its own, used twice
    const Part part = [&](const at::Tensor& in) { return at::tanh(in * gate); };
    const at::Tensor y = called(call, part, x) + gate;
    return gradients(y.square().sum(), {x, weight});
  };
  expect_equal(network(Call::kRecomputed), network(Call::kPlain));
}

TEST(Recompute, RunsHooksOfVariablesOnce) {
  const at::Tensor weight = leaf({4}), x = leaf({4});
  int hooks = 0;
  const unsigned hook = weight.register_hook([&](const at::Tensor& gradient) {
    ++hooks;
    return gradient * 2;
  });
  const Part part = [&](const at::Tensor& in) { return in * weight; };
  expect_equal(gradients(recompute(part, x).sum(), {weight}), {x * 2});
  EXPECT_EQ(hooks, 1);
  weight.remove_hook(hook);
}

TEST(Recompute, KeepsTheGraphOnRequest) {
  const at::Tensor x = at::ones({32}).requires_grad_();
  const at::Tensor y =
      recompute([](const at::Tensor& in) { return at::dropout(in, 0.5, true); }, x);
  const auto once = [&](bool keep) {
    return torch::autograd::grad({y.sum()}, {x}, {}, keep).front();
  };
  const at::Tensor first = once(true);
  EXPECT_TRUE(once(false).equal(first));
  EXPECT_NE(error_of([&] { once(false); }, ErrorCode::kFailedPrecondition).find("second time"),
            std::string::npos);
}

TEST(Recompute, RefusesSecondDerivatives) {
  const at::Tensor x = leaf({3});
  const at::Tensor y = recompute([](const at::Tensor& in) { return in.exp(); }, x);
  const auto twice = [&] {
    torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true);
  };
  EXPECT_NE(error_of(twice, ErrorCode::kUnimplemented).find("recompute"), std::string::npos);
}

TEST(Recompute, LetsErrorsOfTheSecondCallThrough) {
  const at::Tensor x = leaf({3});
  int calls = 0;
  const auto failing_with = [&](const auto& error) {
    calls = 0;
    return recompute(
        [&calls, error](const at::Tensor& in) {
          if (++calls == 2) throw error;
          return in.exp();
        },
        x);
  };
  const at::Tensor y = failing_with(Error(ErrorCode::kUnavailable, "no more memory"));
  EXPECT_NE(error_of([&] { y.sum().backward(); }, ErrorCode::kUnavailable).find("no more memory"),
            std::string::npos);
  EXPECT_THROW(failing_with(std::out_of_range("row 7")).sum().backward(), std::out_of_range);
}

TEST(Recompute, RefusesAFunctionThatDiffersTheSecondTime) {
  const at::Tensor x = leaf({3}), one = leaf({3}), other = leaf({3});
  int calls = 0;
  const auto backward_of = [&](const std::function<at::Tensor(const at::Tensor&, int)>& function) {
    calls = 0;
    const at::Tensor y = recompute([&](const at::Tensor& in) { return function(in, ++calls); }, x);
    return error_of([&] { y.sum().backward(); }, ErrorCode::kFailedPrecondition);
  };
  EXPECT_NE(backward_of([](const at::Tensor& in, int call) {
              return call == 1 ? in.exp() : in.exp().narrow(0, 0, 2);
            }).find("Float[2] in its second call and Float[3] in its first"),
            std::string::npos);
  EXPECT_NE(backward_of([&](const at::Tensor& in, int call) {
              return in * (call == 1 ? one : other);
            }).find("did not use in its first"),
            std::string::npos);
}

TEST(Recompute, RefusesChangesInPlace) {
  const at::Tensor data = wave({3}), weight = leaf({3});
  const auto change = [&](const at::Tensor& in) {
    in.mul_(2);
    return in * weight;
  };
  EXPECT_NE(error_of([&] { recompute(change, data); }, ErrorCode::kInvalidArgument)
                .find("changes input 0 in place"),
            std::string::npos);
  const at::Tensor y = recompute([&](const at::Tensor& in) { return in * weight; }, data);
  {
    const at::NoGradGuard no_gradients;
    weight.add_(1);
  }
  EXPECT_NE(error_of([&] { y.sum().backward(); }, ErrorCode::kFailedPrecondition)
                .find("changed between forward and backward"),
            std::string::npos);
}

/// Two layers with batch norm and dropout, an end point and a loss of an activation.
at::Tensor slim_part(const at::Tensor& in) {
  const auto scope = variables::variable_scope("part");
  auto x = fully_connected(
      in, 6, {.normalizer = batch_normalizer({.decay = 0.5}), .outputs_collections = {"points"}});
  x = dropout(x, {.keep_prob = 0.5});
  variables::require_graph("test").add_loss("activity", x.square().mean());
  return fully_connected(x, 3);
}

struct SlimPass {
  std::vector<at::Tensor> gradients, statistics;
  std::vector<std::string> names;
};

SlimPass slim_pass(Call call) {
  Graph graph;
  const auto opened = graph.as_default();
  device::ReplicaGenerator generator(1, 0);
  const device::RandomScope random(generator);
  const at::Tensor data = leaf({8, 4});
  const at::Tensor before = fully_connected(data, 4);
  at::Tensor y;
  {
    const auto defaults = arg_scope<fully_connected>({.activation = at::tanh});
    y = called(call, slim_part, before);
  }
  const EndPoints points = end_points("points");
  SlimPass pass;
  at::Tensor loss = y.square().sum() + graph.losses().at(0) * 3;
  for (const auto& point : points) {
    pass.names.push_back(point.name);
    loss = loss + point.value.sum();
  }
  EXPECT_EQ(graph.losses().size(), 1U);
  EXPECT_EQ(graph.update_ops().size(), 2U);
  std::vector<at::Tensor> of = {data};
  for (const auto& variable : graph.store().variables()) {
    if (variable.trainable()) of.push_back(variable.component(0));
    pass.names.push_back(variable.name());
  }
  pass.gradients = gradients(loss, of);
  EXPECT_EQ(graph.losses().size(), 1U);
  EXPECT_EQ(graph.update_ops().size(), 2U);
  EXPECT_EQ(end_points("points").size(), 1U);
  graph.run_update_ops();
  for (const auto& variable : graph.store().non_trainable_variables())
    pass.statistics.push_back(variable.read());
  pass.names.push_back(graph.unique_name("fully_connected"));
  return pass;
}

TEST(Recompute, RunsInTheScopesOfTheFirstCallAndCountsOnce) {
  const SlimPass plain = slim_pass(Call::kPlain), recomputed = slim_pass(Call::kRecomputed);
  EXPECT_EQ(recomputed.names, plain.names);
  expect_equal(recomputed.gradients, plain.gradients);
  expect_equal(recomputed.statistics, plain.statistics);
}

TEST(Recompute, OutlivesTheGraphOfTheFirstCall) {
  const at::Tensor x = leaf({2, 4});
  at::Tensor y;
  {
    Graph graph;
    const auto opened = graph.as_default();
    const auto device = device::with_device("cpu:0");
    y = recompute([](const at::Tensor& in) { return fully_connected(in, 3); }, x);
  }
  EXPECT_TRUE(gradients(y.sum(), {x}).front().defined());
}

TEST(Recompute, MovesStatisticsInPlaceOnce) {
  const auto pass = [](Call call) {
    Graph graph;
    const auto opened = graph.as_default();
    const at::Tensor x = leaf({8, 3});
    const Part part = [](const at::Tensor& in) {
      return batch_norm(in * 2, {.decay = 0.5, .updates = StatisticsUpdate::kInPlace});
    };
    gradients(called(call, part, x).square().sum(), {x});
    std::vector<at::Tensor> statistics;
    for (const auto& variable : graph.store().non_trainable_variables())
      statistics.push_back(variable.read());
    return statistics;
  };
  expect_equal(pass(Call::kRecomputed), pass(Call::kPlain));
}

TEST(Recompute, LeavesStatisticsAloneIfTheSecondCallFails) {
  Graph graph;
  const auto opened = graph.as_default();
  const at::Tensor x = leaf({8, 3});
  int calls = 0;
  const at::Tensor y = recompute(
      [&](const at::Tensor& in) {
        const at::Tensor result = batch_norm(in, {.updates = StatisticsUpdate::kInPlace});
        if (++calls == 2) throw Error(ErrorCode::kUnavailable, "gone");
        return result;
      },
      x);
  const at::Tensor mean = graph.store().non_trainable_variables().front().read();
  EXPECT_THROW(gradients(y.sum(), {x}), Error);
  EXPECT_TRUE(graph.store().non_trainable_variables().front().read().equal(mean));
}

TEST(Recompute, MovesStatisticsOfLibtorchsBatchNormOnce) {
  const at::Tensor x = leaf({8, 3});
  const auto statistics = [&](Call call) {
    torch::nn::BatchNorm1d norm(3);
    const at::Tensor y = call == Call::kPlain ? norm(x) : recompute(norm, x);
    const at::Tensor of_x = gradients(y.square().sum(), {x}).front();
    return std::vector<at::Tensor>{of_x, norm->running_mean, norm->running_var};
  };
  expect_equal(statistics(Call::kRecomputed), statistics(Call::kPlain));
}

TEST(Recompute, CastsAsTheFirstCall) {
  const at::Tensor weight = leaf({4, 4}), x = leaf({2, 4});
  const auto pass = [&](Call call) {
    std::vector<at::ScalarType> dtypes;
    const Part part = [&](const at::Tensor& in) {
      const at::Tensor y = at::linear(in, weight);
      dtypes.push_back(y.scalar_type());
      return at::tanh(y);
    };
    at::Tensor y;
    {
      const device::AutocastScope casts(device::Precision::kBf16);
      y = called(call, part, x);
    }
    auto found = gradients(y.sum(), {x, weight});
    EXPECT_EQ(dtypes, std::vector<at::ScalarType>(call == Call::kPlain ? 1 : 2, at::kBFloat16));
    EXPECT_EQ(found[1].scalar_type(), at::kFloat);
    found.push_back(y);
    return found;
  };
  expect_equal(pass(Call::kRecomputed), pass(Call::kPlain));
}

TEST(Recompute, RepeatsCollectivesInEveryReplica) {
  for (const Call call : {Call::kPlain, Call::kRecomputed}) {
    std::vector<at::Tensor> of_inputs(2), means(2);
    comm::run_ranks_successfully(2, [&](comm::Communicator& ranks) {
      const comm::Replica replica{ranks.rank(), 2, ranks.rank(), &ranks};
      const base::AmbientScope<const comm::Replica> scope(comm::kReplicaSlot, &replica);
      SyncBatchNorm norm{torch::nn::BatchNormOptions(3)};
      const at::Tensor x = (wave({4, 3}) * (ranks.rank() + 1)).detach().requires_grad_();
      const at::Tensor y = (call == Call::kPlain ? norm(x) : recompute(norm, x));
      EXPECT_TRUE(comm::backward_is_collective(y));
      const auto rank = static_cast<std::size_t>(ranks.rank());
      of_inputs[rank] = gradients(y.pow(3).sum(), {x}).front();
    });
    static std::vector<at::Tensor> plain;
    if (call == Call::kPlain) plain = of_inputs;
    expect_equal(of_inputs, plain);
  }
}

TEST(Recompute, RefusesBackwardOutsideOfTheRun) {
  const at::Tensor x = leaf({3});
  at::Tensor y;
  {
    const comm::Replica replica;
    const base::AmbientScope<const comm::Replica> scope(comm::kReplicaSlot, &replica);
    y = recompute([](const at::Tensor& in) { return in.exp(); }, x);
  }
  EXPECT_NE(error_of([&] { y.sum().backward(); }, ErrorCode::kFailedPrecondition)
                .find("same step function"),
            std::string::npos);
}

/// The largest number of bytes that tensors of this thread had at the same time.
class LiveBytes final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    live_ += size;
    peak_ = std::max(peak_, live_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t live_ = 0, peak_ = 0;
};

std::int64_t peak_of(const std::function<void()>& call) {
  const auto bytes = std::make_shared<LiveBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
  call();
  return bytes->peak();
}

TEST(Recompute, NeedsLessMemory) {
  constexpr int kLayers = 32, kGroup = 5;
  std::vector<at::Tensor> weights;
  for (int i = 0; i < kLayers; ++i) weights.push_back(leaf({16, 16}));
  const at::Tensor data = wave({2048, 16});
  const auto step = [&](Call call) {
    at::Tensor x = data;
    for (int begin = 0; begin < kLayers; begin += kGroup) {
      const int end = std::min(begin + kGroup, kLayers);
      const Part group = [&, begin, end](const at::Tensor& in) {
        at::Tensor net = in;
        for (int i = begin; i < end; ++i) net = at::tanh(at::linear(net, weights[i]));
        return net;
      };
      x = called(end == kLayers ? Call::kPlain : call, group, x);
    }
    const at::Tensor loss = x.sum();
    x.reset();
    gradients(loss, weights);
  };
  const std::int64_t plain = peak_of([&] { step(Call::kPlain); });
  const std::int64_t recomputed = peak_of([&] { step(Call::kRecomputed); });
  EXPECT_GT(plain, kLayers * data.nbytes()) << "all activations";
  EXPECT_LE(recomputed, 0.4 * static_cast<double>(plain));
}

}  // namespace
}  // namespace brigade::layers
