// A strategy is a composition: one whose storage, synchronizer and runner are made outside of
// `distribute` trains, saves and resumes like the built-in ones.
#include "tests/contract/composed_strategy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/restore.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/distribute/strategies/one_device_strategy.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/adam.h"

namespace brigade::distribute {
namespace {

using testing::ComposedStrategy;

struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    first = register_module("first", torch::nn::Linear(3, 5));
    second = register_module("second", torch::nn::Linear(5, 1));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return second(first(x).tanh()); }
  torch::nn::Linear first = nullptr, second = nullptr;
};

/// Trains two layers on six rows.
class Training {
 public:
  explicit Training(Strategy& strategy)
      : strategy_(strategy),
        model_(strategy.create<TwoLayers>()),
        adam_(strategy.optimizer(model_, optim::Adam{.learning_rate = 0.05})) {}

  void steps(int count) {
    const at::Tensor rows = at::arange(18, at::kDouble).view({6, 3}).sin();
    for (int step = 0; step < count; ++step) {
      strategy_.run(
          [&](const at::Tensor& x) { adam_.minimize((model_(x).squeeze(1) - x.sum(1)).square()); },
          strategy_.split_batch(rows));
    }
  }

  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> values;
    for (const variables::Variable& variable : model_.variables())
      values.push_back(variable.read());
    for (const auto& [name, slot] : adam_.state().save("adam").slots)
      values.push_back(slot.clone());
    return values;
  }

  checkpoint::Contents contents() const {
    optim::SavedOptimizer saved = adam_.state().save("adam");
    checkpoint::Contents contents;
    contents.variables = model_.variables();
    contents.state = saved.state;
    for (const auto& [name, slot] : saved.slots) contents.tensors.push_back({name, slot});
    return contents;
  }
  void restore(const checkpoint::Checkpoint& checkpoint) {
    checkpoint::restore_variables(checkpoint, model_.variables());
    optim::SavedOptimizer saved{.slots = {}, .state = checkpoint.state()};
    for (const auto& each : checkpoint.tensors(checkpoint::Section::kTensors))
      saved.slots[each.name] = each.tensor;
    adam_.restore("adam", saved);
    strategy_.set_step(static_cast<std::uint64_t>(checkpoint.step()));
  }

 private:
  Strategy& strategy_;
  Replicated<TwoLayers> model_;
  Optimizer adam_;
};

TEST(ComposedStrategy, TrainsLikeOneDevice) {
  OneDeviceStrategy one("cpu:0");
  Training expected(one);
  expected.steps(5);
  ComposedStrategy composed(2);
  Training ours(composed);
  ours.steps(5);
  const auto values = ours.values();
  ASSERT_EQ(values.size(), expected.values().size());
  for (std::size_t i = 0; i < values.size(); ++i)  // in float64, but for the order of additions
    EXPECT_TRUE(values[i].allclose(expected.values()[i], 1e-12, 1e-14)) << i;
  EXPECT_EQ(composed.refreshes(), 5 * 2);
}

TEST(ComposedStrategy, ResumesBitForBit) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  ComposedStrategy unbroken_strategy(2);
  Training unbroken(unbroken_strategy);
  unbroken.steps(6);
  {
    ComposedStrategy strategy(2);
    Training first(strategy);
    first.steps(3);
    checkpoint::Saver saver(files, {.directory = "/run"});
    saver.save(3, first.contents());
    saver.close();
  }
  ComposedStrategy strategy(2);
  Training second(strategy);
  second.restore(
      checkpoint::Checkpoint::open(files, *checkpoint::latest_checkpoint(*files, "/run")));
  second.steps(3);
  const auto expected = unbroken.values();
  const auto resumed = second.values();
  ASSERT_EQ(resumed.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(resumed[i], expected[i])) << i;
}

}  // namespace
}  // namespace brigade::distribute
