#include "brigade/distribute/pipeline/stage_threads.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/comm/stage_passes.h"
#include "brigade/concurrency/stage_slots.h"
#include "brigade/distribute/strategies/pipeline_strategy.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/machine/affinity.h"
#include "brigade/optim/sgd.h"

namespace brigade::distribute {
namespace {

using concurrency::PassDirection;
using machine::CoreSet;
using machine::thread_affinity;

/// The first and the last core of this process; the same one if it has one alone.
std::vector<CoreSet> two_cores() {
  const CoreSet all = thread_affinity();
  return {CoreSet({all.cores().front()}), CoreSet({all.cores().back()})};
}

TEST(StageThreads, MicroBatchesComputeOnTheCoresOfTheirStagesAndLeaveThemAtTheEnd) {
  constexpr int kMicroBatches = 4;
  const std::vector<CoreSet> cores = two_cores();
  const CoreSet before = thread_affinity();
  concurrency::StageSlots slots({.stages = 2,
                                 .micro_batches = kMicroBatches,
                                 .timeout = std::chrono::seconds(60),
                                 .threads = std::make_shared<StageThreads>(cores, kMicroBatches)});
  for (int step = 0; step < 3; ++step) {
    slots.start();
    std::atomic<int> elsewhere = 0;
    std::vector<std::thread> threads;
    for (int task = 0; task < kMicroBatches; ++task) {
      threads.emplace_back([&, task] {
        const auto compute = [&](int stage) {
          if (thread_affinity() != cores[static_cast<std::size_t>(stage)]) ++elsewhere;
        };
        {
          const concurrency::ExecutionSlots::Hold hold(&slots, task);
          compute(0);
          slots.enter(task, PassDirection::kForward, 1);
          compute(1);
          slots.enter(task, PassDirection::kBackward, 1);
          compute(1);
          slots.enter(task, PassDirection::kBackward, 0);
          compute(0);
          slots.finish(task);
        }
        if (thread_affinity() != before) ++elsewhere;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(elsewhere, 0);
  }
}

TEST(StageThreads, AThreadThatGotNoDeviceStaysWhereItIs) {
  StageThreads threads(two_cores(), 1);
  const CoreSet before = thread_affinity();
  threads.begin(0);
  EXPECT_EQ(thread_affinity(), before);
  threads.end(0);
  EXPECT_EQ(thread_affinity(), before);
}

/// On which cores each stage was computed.
struct CoresOfStages {
  void add(std::size_t stage) {
    const std::lock_guard lock(mutex);
    seen[stage].insert(thread_affinity().to_string());
  }
  std::mutex mutex;  // guards the rest
  std::array<std::set<std::string>, 2> seen;
};

struct TwoStageNet : torch::nn::Module {
  explicit TwoStageNet(std::shared_ptr<CoresOfStages> where) : cores(std::move(where)) {
    dense = register_module("dense", torch::nn::Linear(4, 4));
  }
  at::Tensor forward(const at::Tensor& features) {
    at::Tensor x = dense(comm::begin_layer("first", features));
    cores->add(0);
    x = comm::begin_layer("second", x);
    cores->add(1);
    return x.square();
  }
  torch::nn::Linear dense{nullptr};
  std::shared_ptr<CoresOfStages> cores;
};

TEST(StageThreads, APipelineComputesEachStageOnTheCoresOfItsDevice) {
  const CoreSet before = thread_affinity();
  if (before.size() < 2) GTEST_SKIP() << "one core: no stage has its own";
  PipelineStrategy strategy({.devices = {"cpu:0", "cpu:1"}, .cut = {"second"}, .micro_batches = 4});
  const auto where = std::make_shared<CoresOfStages>();
  const auto model = strategy.create([&] { return std::make_shared<TwoStageNet>(where); });
  const auto sgd = strategy.optimizer(model, optim::Sgd{.learning_rate = 0.1});
  const auto batch =
      *strategy
           .distribute(
               input::from_tensor_slices(at::ones({8, 4}), at::zeros({8}, at::kLong)).batch(8))
           .begin();
  strategy.run(
      [&](const input::LabeledBatch& local) { sgd.minimize(model(local.features).mean()); }, batch);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    const CoreSet& cores = strategy.stage_devices()[stage].cores;
    if (cores.empty()) GTEST_SKIP() << "threads must not be pinned here";
    EXPECT_EQ(where->seen[stage], std::set<std::string>({cores.to_string()}));
  }
  EXPECT_EQ(thread_affinity(), before);
}

}  // namespace
}  // namespace brigade::distribute
