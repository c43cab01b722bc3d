#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "brigade/checkpoint/contents.h"
#include "brigade/distribute/testing/card_strategy.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/optim/adam.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/model/model.h"
#include "brigade/train/session/training_state.h"

namespace brigade::train {
namespace {

using device::testing::FakeDevice;

// libtorch counts the devices when its first backward begins.
[[maybe_unused]] const FakeDevice& registered_before_backward = FakeDevice::get();

/// How often the host waits for the card in each step of a fit, from the end of one to the end of
/// the next.
class WaitsPerStep final : public Callback {
 public:
  void on_epoch_begin(FitContext&) override { last_ = FakeDevice::get().host_waits(); }
  void on_train_batch_end(FitContext&) override {
    const int now = FakeDevice::get().host_waits();
    waits_.push_back(now - last_);
    last_ = now;
  }
  const std::vector<int>& waits() const { return waits_; }

 private:
  int last_ = 0;
  std::vector<int> waits_;
};

at::Tensor two_layers(const at::Tensor& x, variables::Mode) {
  return layers::v1::dense(layers::v1::dense(x, 8, {.activation = layers::relu}), 3);
}

std::vector<int> waits_of_fit(const CompileOptions& options, std::vector<HookPtr> hooks = {}) {
  distribute::CardStrategy strategy;
  Model model(strategy, two_layers);
  model.compile(options);
  const auto counter = std::make_shared<WaitsPerStep>();
  FitOptions fit{.batch_size = 8, .callbacks = {counter}, .verbose = Verbose::kSilent};
  fit.session.hooks = std::move(hooks);
  model.fit(LabeledData(at::rand({80, 4}), at::randint(3, {80}, at::kLong)), fit);
  return counter->waits();
}

CompileOptions with_accuracy() {
  return {.optimizer = optim::Adam{.learning_rate = 1e-2},
          .loss = Loss("sparse_categorical_crossentropy", {.from_logits = true}),
          .metrics = {"accuracy"}};
}

TEST(HostWaits, AStepOfFitNeverWaitsForTheCard) {
  EXPECT_EQ(waits_of_fit(with_accuracy()), std::vector<int>(10, 0));
}

TEST(HostWaits, AHookReadsTheCardWhenItIsDue) {
  EXPECT_EQ(waits_of_fit(with_accuracy(), {NanHook{.every_steps = 4}}),
            (std::vector<int>{0, 0, 0, 1, 0, 0, 0, 1, 0, 0}));
}

TEST(HostWaits, ASnapshotOfVariablesAndSlotsWaitsOnceForTheCard) {
  distribute::CardStrategy strategy;
  Model model(strategy, two_layers);
  model.compile(with_accuracy());
  model.fit(LabeledData(at::rand({16, 4}), at::randint(3, {16}, at::kLong)),
            {.batch_size = 8, .verbose = Verbose::kSilent});
  TrainingState state(strategy);
  state.add_created();
  const checkpoint::Contents contents = state.contents();
  ASSERT_GT(contents.variables.size() + contents.tensors.size(), 10U);
  const int before = FakeDevice::get().host_waits();
  const checkpoint::Snapshot snapshot =
      checkpoint::take_snapshot(2, contents, checkpoint::SnapshotMemory::kOwn);
  EXPECT_EQ(FakeDevice::get().host_waits(), before + 1);
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    EXPECT_TRUE(snapshot.tensors[i].tensor.equal(FakeDevice::read(contents.tensors[i].tensor)))
        << contents.tensors[i].name;
  }
  ASSERT_EQ(snapshot.variables.size(), contents.variables.size());
  for (std::size_t i = 0; i < contents.variables.size(); ++i)
    EXPECT_TRUE(
        snapshot.variables[i].tensor.equal(FakeDevice::read(contents.variables[i].local())));
}

}  // namespace
}  // namespace brigade::train
