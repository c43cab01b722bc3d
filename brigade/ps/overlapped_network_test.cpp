// Gradients that are sent to a parameter server over the network, or copied to shared memory, while
// backward is still running.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/clock.h"
#include "brigade/base/strings.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/client/remote_service.h"
#include "brigade/ps/server/server_core.h"
#include "brigade/ps/testing/job_of_threads.h"

namespace brigade::ps {
namespace {

using distribute::LossScale;
using distribute::ReplicaContext;
using testing::expect_equal_bits;
using testing::Weights;

/// y = x * bottom * top; each has 2.4 MB.
struct WideStack : torch::nn::Module {
  WideStack() {
    bottom = register_parameter("bottom", at::full({300'000}, 2.0, at::kDouble));
    top = register_parameter("top", at::full({300'000}, 3.0, at::kDouble));
  }
  /// `midway` is called in backward between the gradients of `top` and of `bottom`.
  at::Tensor forward(double x, const std::function<void()>& midway) const {
    const at::Tensor hidden = bottom * x;
    if (midway) hidden.register_hook([midway](const at::Tensor&) { midway(); });
    return (hidden * top).sum();
  }
  at::Tensor bottom, top;
};

/// A worker and its server, which are connected over loopback.
class LoopbackJob {
 public:
  LoopbackJob(bool shared_memory, std::optional<std::size_t> overlap_from_bytes)
      : core_(std::make_shared<io::MemoryFileSystem>(),
              {.tasks = spec_.training_tasks(), .store = {.folder = "/server"}}, clock_),
        listener_(listen(core_, {.shared_memory = shared_memory})),
        strategy_(join(shared_memory, overlap_from_bytes)),
        model_(strategy_->create<WideStack>()),
        optimizer_(strategy_->optimizer(model_, optim::Sgd{.learning_rate = 0.125})) {}

  void minimize(double x, const std::function<void()>& midway = {}) {
    strategy_->run([&](ReplicaContext&) {
      optimizer_.minimize(model_.local().forward(x, midway), LossScale::kSum);
    });
  }
  /// Waits until the server receives a message, or has none.
  void await_message(bool exists) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (receives() != exists && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_EQ(receives(), exists);
  }
  std::int64_t pushes() const { return core_.counters().pushes; }
  Weights weights() const { return testing::weights_of(model_.variables()); }

 private:
  bool receives() const { return listener_->load().messages.buffered_bytes > 0; }
  std::unique_ptr<ParameterServerStrategy> join(bool shared_memory,
                                                std::optional<std::size_t> overlap_from_bytes) {
    std::vector<std::unique_ptr<ParameterService>> servers;
    servers.push_back(
        connect(listener_->address(), std::nullopt, {.shared_memory = shared_memory}));
    return std::make_unique<ParameterServerStrategy>(
        testing::config_of(spec_, 0), std::move(servers),
        ParameterServerOptions{.devices = {"cpu:0"}, .overlap_from_bytes = overlap_from_bytes});
  }

  const cluster::ClusterSpec spec_ = testing::cluster_of(1, 1);
  const base::SystemClock clock_;
  ServerCore core_;
  const std::unique_ptr<ServiceListener> listener_;
  std::unique_ptr<ParameterServerStrategy> strategy_;
  distribute::Replicated<WideStack> model_;
  distribute::Optimizer optimizer_;
};

TEST(OverlappedNetwork, PushesThatAreSentDuringBackwardGiveTheSameBits) {
  for (const bool shared_memory : {true, false}) {
    LoopbackJob job(shared_memory, 0), other(shared_memory, std::nullopt);
    for (int step = 0; step < 4; ++step) {
      job.minimize(0.5 + step, [&] {
        // In shared memory nothing is sent before the push is whole.
        if (step > 0 && !shared_memory) job.await_message(true);
      });
      other.minimize(0.5 + step);
    }
    EXPECT_EQ(job.pushes(), 4);
    expect_equal_bits(job.weights(), other.weights(), shared_memory ? "shared memory" : "frames");
  }
}

TEST(OverlappedNetwork, ABackwardThatFailsLeavesTheServerAsItWas) {
  for (const bool shared_memory : {true, false}) {
    LoopbackJob job(shared_memory, 0), other(shared_memory, std::nullopt);
    job.minimize(1.0);
    other.minimize(1.0);
    for (int i = 0; i < 3; ++i) {
      EXPECT_THROW(job.minimize(100.0,
                                [&] {
                                  if (!shared_memory) job.await_message(true);
                                  throw std::runtime_error("the pass failed");
                                }),
                   std::exception);
      job.await_message(false);
      EXPECT_EQ(job.pushes(), 1);
    }
    job.minimize(2.0);
    other.minimize(2.0);
    EXPECT_EQ(job.pushes(), 2);
    expect_equal_bits(job.weights(), other.weights(), shared_memory ? "shared memory" : "frames");
  }
}

}  // namespace
}  // namespace brigade::ps
