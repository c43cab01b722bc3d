#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "brigade/distribute/testing/card_strategy.h"
#include "brigade/layers/v1/tf_layers.h"
#include "brigade/optim/adam.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/model/model.h"

namespace brigade::train {
namespace {

using device::testing::FakeDevice;

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

struct FitOnCard {
  std::vector<int> waits(std::vector<HookPtr> hooks, const CompileOptions& options) {
    distribute::CardStrategy strategy;
    Model model(strategy, two_layers);
    model.compile(options);
    const auto counter = std::make_shared<WaitsPerStep>();
    const LabeledData data(at::rand({80, 4}), at::randint(3, {80}, at::kLong));
    FitOptions fit{.epochs = 1,
                   .batch_size = 8,
                   .callbacks = {counter},
                   .verbose = Verbose::kSilent};
    fit.session.hooks = std::move(hooks);
    model.fit(data, fit);
    return counter->waits();
  }
};

CompileOptions with_accuracy() {
  return {.optimizer = optim::Adam{.learning_rate = 1e-2},
          .loss = Loss("sparse_categorical_crossentropy", {.from_logits = true}),
          .metrics = {"accuracy"}};
}

TEST(HostWaits, AStepOfFitNeverWaitsForTheCard) {
  EXPECT_EQ(FitOnCard().waits({}, with_accuracy()), std::vector<int>(10, 0));
}

TEST(HostWaits, AHookReadsTheCardWhenItIsDue) {
  EXPECT_EQ(FitOnCard().waits({NanHook{.every_steps = 4}}, with_accuracy()),
            (std::vector<int>{0, 0, 0, 1, 0, 0, 0, 1, 0, 0}));
}

}  // namespace
}  // namespace brigade::train
