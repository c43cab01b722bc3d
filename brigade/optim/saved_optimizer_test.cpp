#include "brigade/optim/saved_optimizer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/optimizer_state.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/variable_store.h"

namespace brigade::optim {
namespace {

using variables::StorageSharing;
using variables::Variable;

struct Layers : torch::nn::Module {
  explicit Layers(std::int64_t width) {
    register_parameter("a", at::full({3}, 1.0));
    register_parameter("b", at::full({2, width}, 1.0));
  }
};

/// Two variables on `replicas` replicas, and an optimizer of them.
struct Trained {
  Trained(int replicas, StorageSharing sharing, UpdateRulePtr rule = Adam{}.rule(),
          std::int64_t width = 2)
      : store(std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU)),
              sharing) {
    std::vector<std::shared_ptr<torch::nn::Module>> modules;
    for (int replica = 0; replica < replicas; ++replica)
      modules.push_back(std::make_shared<Layers>(width));
    variables = store.adopt(modules);
    state = std::make_unique<OptimizerState>(std::move(rule), variables,
                                             std::span<const ParameterGroup>());
  }

  /// One update with the gradients 1, 2, 3, ... in every replica's memory.
  void update(const std::vector<bool>& has_gradient = {true, true}) {
    const int masters = state->storages().front()->masters();
    for (int master = 0; master < masters; ++master) {
      for (const UpdateRun& run : state->runs(has_gradient)) {
        const at::Tensor gradient = at::arange(run.begin + 1, run.end + 1, at::kFloat);
        state->apply(master, run, run.begin, run.end, gradient);
      }
    }
    state->advance(has_gradient);
  }

  variables::VariableStore store;
  std::vector<Variable> variables;
  std::unique_ptr<OptimizerState> state;
};

/// As a checkpoint returns it: in separate memory.
SavedOptimizer stored(const OptimizerState& state) {
  SavedOptimizer saved = state.save("adam");
  for (auto& [name, slot] : saved.slots) slot = slot.clone();
  return saved;
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "nothing thrown"};
}

TEST(SavedOptimizer, NamesSlotsByOptimizerSlotAndVariable) {
  Trained one(1, StorageSharing::kOneCopyEach);
  const SavedOptimizer saved = one.state->save("adam");
  ASSERT_EQ(saved.slots.size(), 4u);
  EXPECT_EQ(saved.slots.begin()->first, "adam/exp_avg/a");
  EXPECT_EQ(saved.slots.at("adam/exp_avg_sq/b").sizes(), at::IntArrayRef({2, 2}));
}

TEST(SavedOptimizer, ResumesWithAnyNumberOfReplicasAndStorage) {
  Trained before(2, StorageSharing::kOneStorage);
  before.update();
  before.update({true, false});
  before.state->set_learning_rate(0.25);
  const SavedOptimizer saved = stored(*before.state);
  for (const StorageSharing sharing :
       {StorageSharing::kOneStorage, StorageSharing::kOneCopyEach, StorageSharing::kController}) {
    for (const int replicas : {1, 2, 3}) {
      Trained after(replicas, sharing);
      EXPECT_TRUE(after.state->restore("adam", saved).empty());
      EXPECT_EQ(after.state->step(0), 2);
      EXPECT_EQ(after.state->step(1), 1);
      EXPECT_EQ(after.state->learning_rate(), 0.25);
      for (int replica = 0; replica < replicas; ++replica) {
        for (const std::size_t slot : {0u, 1u})
          EXPECT_TRUE(after.state->slot(1, slot, replica).equal(before.state->slot(1, slot, 0)));
      }
    }
  }
}

TEST(SavedOptimizer, RefusesAnotherRuleNamingBoth) {
  Trained adam(1, StorageSharing::kOneCopyEach);
  Trained other(1, StorageSharing::kOneCopyEach, Adam{.beta1 = 0.5}.rule());
  const Error error = error_of([&] { other.state->restore("adam", adam.state->save("adam")); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("0.5"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("0.9"), std::string::npos) << error.what();
  Trained sgd(1, StorageSharing::kOneCopyEach, Sgd{.learning_rate = 0.1}.rule());
  EXPECT_THROW(sgd.state->restore("adam", adam.state->save("adam")), Error);
}

TEST(SavedOptimizer, AChangedRateOfTheProgramApplies) {
  Trained before(1, StorageSharing::kOneCopyEach, Adam{.learning_rate = 0.1}.rule());
  before.state->set_learning_rate(0.05);
  Trained same(1, StorageSharing::kOneCopyEach, Adam{.learning_rate = 0.1}.rule());
  same.state->restore("adam", stored(*before.state));
  EXPECT_EQ(same.state->learning_rate(), 0.05);
  Trained changed(1, StorageSharing::kOneCopyEach, Adam{.learning_rate = 0.2}.rule());
  changed.state->restore("adam", stored(*before.state));
  EXPECT_EQ(changed.state->learning_rate(), 0.2);
}

TEST(SavedOptimizer, MissingStateIsRefusedOrSkipped) {
  Trained before(1, StorageSharing::kOneCopyEach);
  before.update();
  SavedOptimizer saved = stored(*before.state);
  saved.slots.erase("adam/exp_avg_sq/b");
  Trained after(1, StorageSharing::kOneCopyEach);
  const Error error = error_of([&] { after.state->restore("adam", saved); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_NE(std::string(error.what()).find("'b'"), std::string::npos) << error.what();
  EXPECT_EQ(after.state->step(0), 0);
  EXPECT_EQ(after.state->restore("adam", saved, MissingSlots::kSkip),
            std::vector<std::string>{"b"});
  EXPECT_EQ(after.state->step(0), 1);
  EXPECT_EQ(after.state->step(1), 0);
  EXPECT_EQ(after.state->slot(1, 0, 0).abs().sum().item<float>(), 0);
}

TEST(SavedOptimizer, RefusesAnotherShapeWithoutChanges) {
  Trained before(1, StorageSharing::kOneCopyEach);
  before.update();
  Trained wider(1, StorageSharing::kOneCopyEach, Adam{}.rule(), 5);
  const Error error = error_of([&] { wider.state->restore("adam", stored(*before.state)); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("[2, 5]"), std::string::npos) << error.what();
  EXPECT_EQ(wider.state->step(0), 0);
}

}  // namespace
}  // namespace brigade::optim
