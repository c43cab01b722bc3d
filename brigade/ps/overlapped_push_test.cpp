// Gradients that are sent to parameter servers while backward is still running.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/testing/job_of_threads.h"
#include "brigade/variables/partitioner.h"

namespace brigade::ps {
namespace {

using distribute::cpus;
using distribute::LossScale;
using distribute::Optimizer;
using distribute::ReplicaContext;
using testing::expect_equal_bits;
using testing::JobOfThreads;
using testing::ServiceCall;
using testing::Weights;

/// y = x * bottom * top, and a parameter that nothing uses.
struct Stack : torch::nn::Module {
  Stack() {
    bottom = register_parameter("bottom", at::full({6}, 2.0, at::kDouble));
    top = register_parameter("top", at::full({6}, 3.0, at::kDouble));
    unused = register_parameter("unused", at::full({2}, 5.0, at::kDouble));
  }
  /// `midway` is called in backward between the gradients of `top` and of `bottom`.
  at::Tensor forward(double x, const std::function<void()>& midway) const {
    const at::Tensor hidden = bottom * x;
    if (midway) hidden.register_hook([midway](const at::Tensor&) { midway(); });
    return (hidden * top).sum();
  }
  at::Tensor bottom, top, unused;
};

/// A job of one worker whose model is a `Stack`, on two servers.
class StackJob {
 public:
  explicit StackJob(ParameterServerOptions options, distribute::OptimizerOptions optimizer = {})
      : strategy_(join(std::move(options))),
        model_(strategy_->create<Stack>()),
        optimizer_(strategy_->make_optimizer(
            model_.variables(), optim::Sgd{.learning_rate = 0.125, .momentum = 0.5}.rule(),
            optimizer)) {}

  using Step = std::function<void(const Optimizer&, const Stack&, double x)>;
  /// Calls `work` in each replica, with a number that differs between steps and replicas.
  void step(const Step& work) {
    ++steps_;
    strategy_->run([&](ReplicaContext& context) {
      work(optimizer_, model_.local(), 0.25 * steps_ + 0.5 * context.local_id);
    });
  }
  void minimize(const std::function<void()>& midway = {}) {
    step([&](const Optimizer& optimizer, const Stack& model, double x) {
      optimizer.minimize(model.forward(x, midway), LossScale::kSum);
    });
  }

  int begun() { return job_.servers()[0].begun() + job_.servers()[1].begun(); }
  int finished() { return job_.servers()[0].finished() + job_.servers()[1].finished(); }
  /// Waits until pushes are sent to both servers.
  void await_begun(int count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (begun() < count && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_EQ(begun(), count);
  }
  JobOfThreads& job() { return job_; }
  Weights weights() const { return testing::weights_of(model_.variables()); }

 private:
  std::unique_ptr<ParameterServerStrategy> join(ParameterServerOptions options) {
    for (int server = 0; server < 2; ++server) job_.servers()[server].take_early(true);
    return job_.join(0, std::move(options));
  }

  JobOfThreads job_{2, 1};
  std::unique_ptr<ParameterServerStrategy> strategy_;
  distribute::Replicated<Stack> model_;
  Optimizer optimizer_;
  int steps_ = 0;
};

ParameterServerOptions overlapping(ParameterServerOptions options = {}) {
  options.overlap_from_bytes = 0;
  return options;
}

/// The weights after `steps` steps whose pushes are sent after backward.
Weights trained_without_overlap(ParameterServerOptions options, int steps) {
  options.overlap_from_bytes.reset();
  StackJob job(std::move(options));
  for (int step = 0; step < steps; ++step) job.minimize();
  EXPECT_EQ(job.begun(), 0);
  return job.weights();
}

TEST(OverlappedPush, BeginsDuringBackwardAndGivesTheSameBits) {
  constexpr int kSteps = 4;
  for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kBounded, UpdateMode::kSync}) {
    for (const int replicas : {1, 2}) {
      const ParameterServerOptions options{.devices = cpus(replicas).devices, .mode = mode};
      StackJob job(overlapping(options));
      for (int step = 0; step < kSteps; ++step) {
        // The first push says which gradients there are. Each server has one of the two.
        const int expected = 2 * step;
        job.minimize([&] { job.await_begun(expected); });
      }
      EXPECT_EQ(job.finished(), 2 * (kSteps - 1));
      EXPECT_EQ(job.job().step(), kSteps);
      expect_equal_bits(
          job.weights(), trained_without_overlap(options, kSteps),
          base::str_cat("mode ", static_cast<int>(mode), ", ", replicas, " replicas"));
    }
  }
}

TEST(OverlappedPush, PartsAndRoundedGradientsGiveTheSameBits) {
  constexpr int kSteps = 3;
  const ParameterServerOptions options{.variable_partitioner = variables::fixed_size_partitioner(2),
                                       .push_dtype = at::kBFloat16};
  StackJob job(overlapping(options));
  for (int step = 0; step < kSteps; ++step) job.minimize([&] { job.await_begun(2 * step); });
  EXPECT_EQ(job.finished(), 2 * (kSteps - 1));
  expect_equal_bits(job.weights(), trained_without_overlap(options, kSteps), "parts");
}

TEST(OverlappedPush, ABackwardThatFailsLeavesTheServersAsTheyWere) {
  struct Failed : std::runtime_error {
    Failed() : std::runtime_error("the pass failed") {}
  };
  for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kBounded, UpdateMode::kSync}) {
    for (const int replicas : {1, 2}) {
      const ParameterServerOptions options{.devices = cpus(replicas).devices, .mode = mode};
      StackJob job(overlapping(options));
      job.minimize();
      const Weights before = job.weights();
      for (int i = 1; i <= 2; ++i) {
        EXPECT_THROW(job.minimize([&] {
          job.await_begun(2 * i);
          throw Failed();
        }),
                     std::exception);
        EXPECT_EQ(job.finished(), 0);
        EXPECT_EQ(job.job().step(), 1);
        expect_equal_bits(job.weights(), before, "after the failure");
      }
      job.minimize([&] { job.await_begun(6); });
      EXPECT_EQ(job.finished(), 2);
      EXPECT_EQ(job.job().step(), 2);
    }
  }
}

TEST(OverlappedPush, APassThatFailedAndIsRepeatedInItsStepIsPushedAsAWhole) {
  const auto train = [](StackJob& job, const std::function<void()>& fail) {
    job.minimize();
    for (int step = 0; step < 2; ++step) {
      job.step([&](const Optimizer& optimizer, const Stack& model, double x) {
        try {
          optimizer.minimize(model.forward(100 * x, fail), LossScale::kSum);
          ADD_FAILURE() << "the pass did not fail";
        } catch (const std::exception&) {
        }
        optimizer.minimize(model.forward(x, {}), LossScale::kSum);
      });
    }
    job.minimize();
  };
  StackJob job(overlapping());
  int failures = 0;
  train(job, [&] {
    job.await_begun(2 * ++failures);
    throw std::runtime_error("the pass failed");
  });
  EXPECT_EQ(job.job().step(), 4);
  StackJob other({.overlap_from_bytes = std::nullopt});
  train(other, [] { throw std::runtime_error("the pass failed"); });
  expect_equal_bits(job.weights(), other.weights(), "overlapped");
}

TEST(OverlappedPush, AfterAPushThatFailedTheNextPassOfTheStepPushesItsOwnGradients) {
  for (const int replicas : {1, 2}) {
    const ParameterServerOptions options{.devices = cpus(replicas).devices};
    std::atomic<bool> fails = false;
    const auto train = [&](StackJob& job, const std::function<void()>& midway) {
      job.job().servers()[0].before_calls([&fails](ServiceCall call) {
        if (call == ServiceCall::kExchange && fails.exchange(false))
          throw Error(ErrorCode::kInternal, "the push failed");
      });
      job.minimize();
      fails = true;
      job.step([&](const Optimizer& optimizer, const Stack& model, double x) {
        EXPECT_THROW(optimizer.minimize(model.forward(100 * x, midway), LossScale::kSum), Error);
        optimizer.minimize(model.forward(x, {}), LossScale::kSum);
      });
      EXPECT_EQ(job.job().step(), 3);
    };
    StackJob job(overlapping(options));
    train(job, [&] { job.await_begun(2); });
    ParameterServerOptions without = options;
    without.overlap_from_bytes.reset();
    StackJob other(without);
    train(other, {});
    const auto where = base::str_cat(replicas, " replicas");
    expect_equal_bits(job.weights(), other.weights(), where);
    job.minimize([&] { job.await_begun(4); });
    other.minimize();
    expect_equal_bits(job.weights(), other.weights(), where);
  }
}

TEST(OverlappedPush, AfterAPassThatFailedTheClientIsNotInUse) {
  std::atomic<bool> sends = false, has_failed = false;
  const auto await = [](const std::atomic<bool>& flag) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!flag && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(flag);
  };
  StackJob job(overlapping());
  job.minimize();
  for (int server = 0; server < 2; ++server) {
    job.job().servers()[server].before_calls([&](ServiceCall call) {
      if (call != testing::kSendEarly) return;
      sends = true;
      await(has_failed);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a slow network
      sends = false;
    });
  }
  job.step([&](const Optimizer& optimizer, const Stack& model, double x) {
    const auto fail = [&] {
      await(sends);
      has_failed = true;
      throw std::runtime_error("the pass failed");
    };
    EXPECT_THROW(optimizer.minimize(model.forward(x, fail), LossScale::kSum), std::exception);
    EXPECT_FALSE(sends);
    optimizer.minimize(model.forward(x, {}), LossScale::kSum);
  });
  EXPECT_EQ(job.job().step(), 2);
}

TEST(OverlappedPush, OtherGradientsThanInTheLastStepArePushedAsAWhole) {
  const auto train = [](StackJob& job) {
    job.minimize();
    for (int step = 0; step < 6; ++step) {
      job.step([&](const Optimizer& optimizer, const Stack& model, double x) {
        const at::Tensor all = model.forward(x, {});
        // Fewer than before, more, and fewer again.
        const at::Tensor loss = step % 3 == 0   ? (model.bottom * x).sum()
                                : step % 3 == 1 ? (model.unused * x).sum() + all
                                                : all;
        optimizer.minimize(loss, LossScale::kSum);
      });
    }
  };
  StackJob job(overlapping()), other({.overlap_from_bytes = std::nullopt});
  train(job);
  train(other);
  EXPECT_EQ(job.job().step(), 7);
  expect_equal_bits(job.weights(), other.weights(), "overlapped");
}

TEST(OverlappedPush, AServerThatIsRestartedDuringBackwardGetsThePushOnce) {
  constexpr int kSteps = 3;
  StackJob job(overlapping());
  for (int step = 0; step < kSteps; ++step) {
    job.minimize([&] {
      job.await_begun(2 * step);
      if (step == 1) job.job().servers()[0].restart();
    });
  }
  EXPECT_EQ(job.job().step(), kSteps);
  expect_equal_bits(job.weights(), trained_without_overlap({}, kSteps), "after a restart");
}

TEST(OverlappedPush, GradientsThatAreChangedBeforeTheyAreAppliedWait) {
  const std::vector<StackJob::Step> steps = {
      [](const Optimizer& optimizer, const Stack& model, double x) {
        auto gradients = optimizer.compute_gradients(model.forward(x, {}), LossScale::kSum);
        optimizer.apply_gradients(gradients);
      },
      [](const Optimizer& optimizer, const Stack& model, double x) {
        const auto gradients = optimizer.compute_gradients(model.forward(x, {}), LossScale::kSum);
        optimizer.apply_gradients(optimizer.aggregate(gradients));
      }};
  for (const StackJob::Step& step : steps) {
    StackJob job(overlapping());
    for (int i = 0; i < 3; ++i) job.step(step);
    EXPECT_EQ(job.begun(), 0);
    EXPECT_EQ(job.job().step(), 3);
    expect_equal_bits(job.weights(), trained_without_overlap({}, 3), "changed");
  }
  StackJob accumulating(overlapping(), {.accumulate = 2});
  for (int i = 0; i < 6; ++i) accumulating.minimize();
  EXPECT_EQ(accumulating.begun(), 0);
  EXPECT_EQ(accumulating.job().step(), 3);
}

TEST(OverlappedPush, SmallPushesAreSentAfterBackward) {
  constexpr std::size_t kBytes = 2 * 6 * sizeof(double);  // of the two gradients
  for (const std::size_t least : {kBytes, kBytes + 1}) {
    StackJob job({.overlap_from_bytes = least});
    job.minimize();
    const bool overlaps = least == kBytes;
    job.minimize([&] {
      if (overlaps) job.await_begun(2);
    });
    EXPECT_EQ(job.begun() > 0, overlaps);
  }
}

}  // namespace
}  // namespace brigade::ps
