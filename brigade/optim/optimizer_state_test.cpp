#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/optim/adagrad.h"
#include "brigade/optim/adam.h"
#include "brigade/optim/lars.h"
#include "brigade/optim/optimizer_state.h"
#include "brigade/optim/rms_prop.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/variable_store.h"

namespace brigade::optim {
namespace {

using variables::StorageSharing;
using variables::Variable;
using variables::VariableStore;

struct Layers : torch::nn::Module {
  Layers() {
    a = register_parameter("a", at::full({3}, 1.0));
    b = register_parameter("b", at::full({20}, 1.0));
    c = register_parameter("c", at::full({2, 2}, 1.0));
  }
  at::Tensor a, b, c;
};

struct ThreeVariables {
  explicit ThreeVariables(StorageSharing sharing = StorageSharing::kOneStorage, bool train_b = true)
      : store(std::vector<c10::Device>(2, c10::Device(c10::kCPU)), sharing) {
    for (int replica = 0; replica < 2; ++replica) {
      modules.push_back(std::make_shared<Layers>());
      std::static_pointer_cast<Layers>(modules.back())->b.set_requires_grad(train_b);
    }
    variables = store.adopt(modules);
  }
  VariableStore store;
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  std::vector<Variable> variables;
};

std::vector<std::pair<std::int64_t, std::int64_t>> ranges(const std::vector<UpdateRun>& runs) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const UpdateRun& run : runs) found.emplace_back(run.begin, run.end);
  return found;
}

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

TEST(OptimizerState, AdjacentVariablesUpdatedAlikeAreOneRun) {
  const ThreeVariables three;
  const OptimizerState state(Sgd{}.rule(), three.variables, {});
  const auto runs = state.runs({true, true, true});
  EXPECT_EQ(ranges(runs), Ranges({{0, 52}}));  // 3 at 0, 20 at 16, 4 at 48
  EXPECT_EQ(runs[0].first, 0u);
  EXPECT_EQ(runs[0].last, 3u);
  EXPECT_EQ(runs[0].step, 1);
}

TEST(OptimizerState, UpdatesMadeElsewhereAreCounted) {
  const ThreeVariables three;
  OptimizerState state(Sgd{.learning_rate = 0.5}.rule(), three.variables,
                       std::vector<ParameterGroup>{{.names = {"b"}, .learning_rate = 0.25}});
  state.set_step(2, 7);
  EXPECT_EQ(state.step(2), 7);
  EXPECT_EQ(state.runs({false, false, true}).front().step, 8);
  EXPECT_THROW(state.set_step(0, -1), Error);
  EXPECT_EQ(state.step(0), 0);
  EXPECT_EQ(state.hyperparameters(0).learning_rate, 0.5);
  EXPECT_EQ(state.hyperparameters(1).learning_rate, 0.25);
}

TEST(OptimizerState, AVariableWithoutGradientEndsARun) {
  const ThreeVariables three;
  const OptimizerState state(Sgd{}.rule(), three.variables, {});
  EXPECT_EQ(ranges(state.runs({true, false, true})), Ranges({{0, 3}, {48, 52}}));
  EXPECT_TRUE(state.runs({false, false, false}).empty());
}

TEST(OptimizerState, AVariableOfAnotherOptimizerEndsARun) {
  const ThreeVariables untrained(StorageSharing::kOneStorage, /*train_b=*/false);
  const OptimizerState state(Sgd{}.rule(), untrained.variables, {});
  EXPECT_EQ(state.variables().size(), 2u);
  EXPECT_EQ(ranges(state.runs({true, true})), Ranges({{0, 3}, {48, 52}}));
  const ThreeVariables three;
  const std::vector<Variable> outer = {three.variables[0], three.variables[2]};
  EXPECT_EQ(ranges(OptimizerState(Sgd{}.rule(), outer, {}).runs({true, true})),
            Ranges({{0, 3}, {48, 52}}));
}

TEST(OptimizerState, AnotherGroupOrStepEndsARun) {
  const ThreeVariables three;
  const std::vector<ParameterGroup> groups = {{.names = {"b"}, .learning_rate = 0.5}};
  const OptimizerState grouped(Sgd{.learning_rate = 0.1}.rule(), three.variables, groups);
  const auto runs = grouped.runs({true, true, true});
  EXPECT_EQ(ranges(runs), Ranges({{0, 3}, {16, 36}, {48, 52}}));
  EXPECT_EQ(runs[0].hyperparameters.learning_rate, 0.1);
  EXPECT_EQ(runs[1].hyperparameters.learning_rate, 0.5);
  OptimizerState stepped(Adam{}.rule(), three.variables, {});
  stepped.advance({true, false, false});
  const auto after = stepped.runs({true, true, true});
  EXPECT_EQ(ranges(after), Ranges({{0, 3}, {16, 52}}));
  EXPECT_EQ(after[0].step, 2);
  EXPECT_EQ(after[1].step, 1);
}

TEST(OptimizerState, FrozenVariablesAreInNoRunAndDoNotStep) {
  const ThreeVariables three;
  const std::vector<ParameterGroup> groups = {{.names = {"a"}, .frozen = true}};
  OptimizerState state(Sgd{}.rule(), three.variables, groups);
  EXPECT_EQ(ranges(state.runs({true, true, true})), Ranges({{16, 52}}));
  state.advance({true, true, false});
  EXPECT_EQ(state.step(0), 0);
  EXPECT_EQ(state.step(1), 1);
  EXPECT_EQ(state.step(2), 0);
}

TEST(OptimizerState, PiecesAndWholeVariablesUpdateAlike) {
  const ThreeVariables flat;
  const ThreeVariables whole;
  OptimizerState pieces(Sgd{.learning_rate = 0.5, .momentum = 0.5}.rule(), flat.variables, {});
  OptimizerState wholes(Sgd{.learning_rate = 0.5, .momentum = 0.5}.rule(), whole.variables, {});
  const std::vector<at::Tensor> gradients = {at::rand({3}), at::rand({20}), at::rand({2, 2})};
  for (int step = 0; step < 2; ++step) {
    const at::NoGradGuard no_grad;
    at::Tensor gradient = at::zeros({52});
    for (std::size_t i = 0; i < 3; ++i)
      gradient.narrow(0, flat.variables[i].offset(), gradients[i].numel())
          .copy_(gradients[i].view(-1));
    for (const UpdateRun& run : pieces.runs({true, true, true})) {
      for (const std::int64_t begin : {0, 13, 26, 39})
        pieces.apply(begin % 2, run, begin, begin + 13, gradient.narrow(0, begin, 13));
    }
    for (const UpdateRun& run : wholes.runs({true, true, true}))
      wholes.apply_whole(0, run, gradients);
    pieces.advance({true, true, true});
    wholes.advance({true, true, true});
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(flat.variables[i].read().equal(whole.variables[i].read())) << i;
    EXPECT_TRUE(pieces.slot(i, 0, 1).equal(wholes.slot(i, 0, 0))) << i;
    EXPECT_EQ(pieces.slot(i, 0, 0).sizes(), flat.variables[i].shape());
  }
}

TEST(OptimizerState, RulesOfWholeVariablesHaveARunForEach) {
  const ThreeVariables three;
  const std::vector<ParameterGroup> groups = {{.names = {"c"}, .layer_adaptation = false}};
  OptimizerState state(Lars{}.rule(), three.variables, groups);
  const auto runs = state.runs({true, true, true});
  EXPECT_EQ(ranges(runs), Ranges({{0, 3}, {16, 36}, {48, 52}}));
  EXPECT_TRUE(runs[1].hyperparameters.layer_adaptation);
  EXPECT_FALSE(runs[2].hyperparameters.layer_adaptation);
  const at::NoGradGuard no_grad;
  EXPECT_NO_THROW(state.apply(0, runs[1], 16, 36, at::rand({20})));
  EXPECT_THROW(state.apply(0, runs[1], 16, 26, at::rand({10})), Error);
  EXPECT_THROW(state.apply(0, runs[1], 26, 36, at::rand({10})), Error);
}

TEST(OptimizerState, RefusesGradientsThatDoNotMatch) {
  const ThreeVariables three;
  OptimizerState state(Sgd{}.rule(), three.variables, {});
  const at::NoGradGuard no_grad;
  const UpdateRun run = state.runs({true, true, true}).front();
  const auto refuses = [&](const std::function<void()>& update) {
    try {
      update();
    } catch (const Error& error) {
      const std::string& name = three.variables[0].name();
      return error.code() == ErrorCode::kInvalidArgument &&
             std::string(error.what()).find("'" + name + "'") != std::string::npos;
    }
    return false;
  };
  for (const at::Tensor& wrong : {at::rand({}), at::rand({3}, at::kDouble), at::Tensor()}) {
    const std::vector<at::Tensor> gradients = {wrong, at::rand({20}), at::rand({2, 2})};
    EXPECT_TRUE(refuses([&] { state.apply_whole(0, run, gradients); }));
    EXPECT_TRUE(refuses([&] { state.apply(0, run, 0, 3, wrong); }));
  }
}

/// SGD that also records what each update is called with.
class RecordingRule final : public UpdateRule {
 public:
  struct Call {
    std::size_t ranges, gradients;
    bool has_equal_shapes;
  };

  std::string_view name() const override { return "recording"; }
  const std::vector<SlotSpec>& slots() const override { return slots_; }
  Hyperparameters defaults() const override { return {.learning_rate = 1}; }
  void apply(const UpdateArguments& a, const Hyperparameters&) const override {
    bool has_equal_shapes = true;
    for (std::size_t i = 0; i < a.gradients.size(); ++i) {
      const at::IntArrayRef shape = a.gradients[i].sizes();
      has_equal_shapes &= a.parameters.at(i).sizes() == shape && a.slots[0].at(i).sizes() == shape;
      a.parameters[i].sub_(a.gradients[i]);
    }
    calls.push_back({a.parameters.size(), a.gradients.size(), has_equal_shapes});
  }
  io::StateTree config() const override { return io::StateTree::dict(); }

  mutable std::vector<Call> calls;

 private:
  const std::vector<SlotSpec> slots_ = {{.name = "slot"}};
};

TEST(OptimizerState, WholeVariablesAreUpdatedInTheShapesOfTheirGradientsInEachStep) {
  const ThreeVariables three;
  const auto rule = std::make_shared<const RecordingRule>();
  OptimizerState state(rule, three.variables, {});
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> shaped = {at::ones({3}), at::ones({20}), at::ones({2, 2})};
  const std::vector<at::Tensor> flat = {at::ones({3}), at::ones({20}), at::ones({4})};
  const std::vector<bool> all(3, true), without_b = {true, false, true};
  for (const auto& gradients : {shaped, flat, shaped}) {
    for (const UpdateRun& run : state.runs(all)) state.apply_whole(0, run, gradients);
  }
  for (const UpdateRun& run : state.runs(without_b)) state.apply_whole(0, run, shaped);
  ASSERT_EQ(rule->calls.size(), 5u);  // a and c are two runs without b
  for (std::size_t i = 0; i < rule->calls.size(); ++i) {
    EXPECT_EQ(rule->calls[i].ranges, i < 3 ? 3u : 1u);
    EXPECT_EQ(rule->calls[i].gradients, rule->calls[i].ranges);
    EXPECT_TRUE(rule->calls[i].has_equal_shapes);
  }
  EXPECT_TRUE(three.variables[0].component(0).equal(at::full({3}, -3.0)));
  EXPECT_TRUE(three.variables[1].component(0).equal(at::full({20}, -2.0)));
  EXPECT_TRUE(three.variables[2].component(0).equal(at::full({2, 2}, -3.0)));
}

TEST(OptimizerState, AVariableWithoutElementsChangesTheVariablesOfAnUpdate) {
  struct WithEmpty : torch::nn::Module {
    WithEmpty() {
      register_parameter("a", at::full({0}, 1.0));
      register_parameter("b", at::full({3}, 1.0));
    }
  };
  VariableStore store({c10::Device(c10::kCPU)}, StorageSharing::kOneStorage);
  const std::vector<std::shared_ptr<torch::nn::Module>> modules = {std::make_shared<WithEmpty>()};
  const auto variables = store.adopt(modules);
  const auto rule = std::make_shared<const RecordingRule>();
  OptimizerState state(rule, variables, {});
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = {at::ones({0}), at::ones({3})};
  for (const std::vector<bool>& has_gradient :
       {std::vector{true, true}, std::vector{false, true}}) {
    for (const UpdateRun& run : state.runs(has_gradient)) state.apply_whole(0, run, gradients);
  }
  ASSERT_EQ(rule->calls.size(), 2U);
  for (const RecordingRule::Call& call : rule->calls) EXPECT_TRUE(call.has_equal_shapes);
  EXPECT_EQ(rule->calls[1].ranges, 1U);
  EXPECT_TRUE(variables[1].component(0).equal(at::full({3}, -1.0)));
}

TEST(OptimizerState, ReplicasWithSeparateMemoryHaveSeparateSlots) {
  const ThreeVariables apart(StorageSharing::kOneCopyEach);
  OptimizerState state(Sgd{.momentum = 0.5}.rule(), apart.variables, {});
  const std::vector<at::Tensor> gradients = {at::rand({3}), at::rand({20}), at::rand({2, 2})};
  const at::NoGradGuard no_grad;
  for (const UpdateRun& run : state.runs({true, true, true})) state.apply_whole(1, run, gradients);
  EXPECT_EQ(state.slot(1, 0, 0).count_nonzero().item<std::int64_t>(), 0);
  EXPECT_TRUE(state.slot(1, 0, 1).equal(gradients[1]));
  EXPECT_TRUE(apart.variables[1].component(0).equal(at::full({20}, 1.0)));
}

TEST(OptimizerState, TheBaseRateAppliesToGroupsWithoutARate) {
  const ThreeVariables three;
  const std::vector<ParameterGroup> groups = {{.names = {"b"}, .learning_rate = 0.5}};
  OptimizerState state(Sgd{.learning_rate = 0.1}.rule(), three.variables, groups);
  state.set_learning_rate(0.01);
  EXPECT_EQ(state.learning_rate(), 0.01);
  const auto runs = state.runs({true, true, true});
  EXPECT_EQ(runs[0].hyperparameters.learning_rate, 0.01);
  EXPECT_EQ(runs[1].hyperparameters.learning_rate, 0.5);
  EXPECT_THROW(state.set_learning_rate(-1), Error);
}

TEST(OptimizerState, RequiresDistinctTrainableVariables) {
  const ThreeVariables three;
  EXPECT_THROW(OptimizerState(Sgd{}.rule(), {}, {}), Error);
  const std::vector<Variable> twice = {three.variables[0], three.variables[0]};
  EXPECT_THROW(OptimizerState(Sgd{}.rule(), twice, {}), Error);
}

struct TwoLayers : torch::nn::Module {
  explicit TwoLayers(std::int64_t width) {
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
      modules.push_back(std::make_shared<TwoLayers>(width));
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

/// A variable "w" of 7 x 2, in partitions of these numbers of rows; of one part: not partitioned.
std::vector<Variable> rows_of_w(VariableStore& store, const std::vector<std::int64_t>& rows) {
  if (rows.size() == 1) return {store.create({.name = "w", .initial = at::full({7, 2}, 1.0)})};
  std::vector<Variable> parts;
  std::int64_t offset = 0;
  for (const std::int64_t count : rows) {
    const variables::VariableSlice slice{.whole = "w", .shape = {7, 2}, .offset = offset};
    parts.push_back(store.create({.name = "w/part_" + std::to_string(parts.size()),
                                  .initial = at::full({count, 2}, 1.0),
                                  .slice = slice}));
    offset += count;
  }
  store.make_contiguous(parts);
  return parts;
}

TEST(SavedOptimizer, SlotsOfPartitionsAreThoseOfTheWholeVariable) {
  const at::Tensor gradient = at::arange(14, at::kFloat).view({7, 2});
  const std::vector<std::vector<std::int64_t>> ways = {{7}, {4, 3}, {3, 2, 2}};
  for (const auto& from : ways) {
    VariableStore store(std::vector<c10::Device>{c10::kCPU}, StorageSharing::kOneStorage);
    OptimizerState state(Adam{}.rule(), rows_of_w(store, from), {});
    const std::vector<bool> all(from.size(), true);
    std::int64_t begin = 0;
    for (const UpdateRun& run : state.runs(all)) {
      std::vector<at::Tensor> gradients(from.size());
      for (std::size_t i = run.first; i < run.last; ++i) {
        gradients[i] = gradient.narrow(0, begin, from[i]).contiguous();
        begin += from[i];
      }
      state.apply_whole(0, run, gradients);
    }
    state.advance(all);
    const SavedOptimizer saved = stored(state);
    ASSERT_EQ(saved.slots.size(), 2u);
    EXPECT_EQ(saved.slots.at("adam/exp_avg/w").sizes(), at::IntArrayRef({7, 2}));
    EXPECT_EQ(saved.state.as_int64("steps", "w"), 1);
    EXPECT_EQ(saved.state.as_dict("steps").size(), 1u);

    for (const auto& to : ways) {
      VariableStore other(std::vector<c10::Device>{c10::kCPU}, StorageSharing::kOneStorage);
      OptimizerState restored(Adam{}.rule(), rows_of_w(other, to), {});
      EXPECT_TRUE(restored.restore("adam", saved).empty());
      EXPECT_EQ(restored.step(to.size() - 1), 1);
      const SavedOptimizer again = restored.save("adam");
      for (const auto& [name, slot] : saved.slots) EXPECT_TRUE(again.slots.at(name).equal(slot));
    }
  }
}

TEST(OptimizerState, RulesOfWholeVariablesRefusePartitions) {
  VariableStore whole(std::vector<c10::Device>{c10::kCPU}, StorageSharing::kOneStorage);
  EXPECT_NO_THROW(OptimizerState(Lars{}.rule(), rows_of_w(whole, {7}), {}));
  VariableStore divided(std::vector<c10::Device>{c10::kCPU}, StorageSharing::kOneStorage);
  const auto parts = rows_of_w(divided, {4, 3});
  EXPECT_NO_THROW(OptimizerState(Sgd{}.rule(), parts, {}));
  try {
    OptimizerState(Lars{}.rule(), parts, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("'w/part_0' is a part of 'w'"), std::string::npos)
        << error.what();
  }
}

TEST(SavedOptimizer, PartitionsSavedUnderTheirOwnNamesAreRestored) {
  VariableStore store(std::vector<c10::Device>{c10::kCPU}, StorageSharing::kOneStorage);
  OptimizerState state(Adam{}.rule(), rows_of_w(store, {4, 3}), {});
  SavedOptimizer saved = stored(state);
  io::StateTree steps = io::StateTree::dict();
  for (const char* slot : {"adam/exp_avg/w", "adam/exp_avg_sq/w"}) {
    const at::Tensor whole = at::full({7, 2}, 0.5);
    saved.slots.erase(slot);
    saved.slots[std::string(slot) + "/part_0"] = whole.narrow(0, 0, 4);
    saved.slots[std::string(slot) + "/part_1"] = whole.narrow(0, 4, 3);
  }
  for (const char* part : {"w/part_0", "w/part_1"}) steps[part] = 3;
  saved.state["steps"] = steps;
  EXPECT_TRUE(state.restore("adam", saved).empty());
  EXPECT_EQ(state.step(1), 3);
  EXPECT_TRUE(state.slot(1, 0, 0).equal(at::full({3, 2}, 0.5)));
}

TEST(SavedOptimizer, AWholeOfAnotherShapeIsRefusedForAPartition) {
  VariableStore store(std::vector<c10::Device>{c10::kCPU}, StorageSharing::kOneStorage);
  OptimizerState state(Adam{}.rule(), rows_of_w(store, {4, 3}), {});
  SavedOptimizer saved = stored(state);
  saved.slots.at("adam/exp_avg/w") = at::full({8, 2}, 0.5);
  const Error error = error_of([&] { state.restore("adam", saved); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("[7, 2]"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("[8, 2]"), std::string::npos) << error.what();
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

struct OddSizes : torch::nn::Module {
  OddSizes() {
    int number = 0;
    for (const std::int64_t size : {45, 7, 100, 9, 1, 130})
      register_parameter("v" + std::to_string(number++), at::arange(size, at::kFloat).sin());
  }
};

using UpdateFunction = std::function<void(OptimizerState& state, const UpdateRun& run,
                                          const std::vector<at::Tensor>& gradients)>;

/// The variables after five steps of the rule, of which `update` makes each.
std::vector<at::Tensor> updated(const UpdateRulePtr& rule, const UpdateFunction& update) {
  VariableStore store(std::vector<c10::Device>(1, c10::Device(c10::kCPU)),
                      StorageSharing::kOneStorage);
  const auto variables =
      store.adopt(std::vector<std::shared_ptr<torch::nn::Module>>{std::make_shared<OddSizes>()});
  OptimizerState state(rule, variables, {});
  const std::vector<bool> all(variables.size(), true);
  for (int step = 1; step <= 5; ++step) {
    std::vector<at::Tensor> gradients;
    for (const Variable& variable : variables)
      gradients.push_back(at::arange(variable.numel(), at::kFloat).mul(step).cos());
    const auto runs = state.runs(all);
    EXPECT_EQ(runs.size(), 1u);
    update(state, runs.front(), gradients);
    state.advance(all);
  }
  std::vector<at::Tensor> values;
  for (const Variable& variable : variables) values.push_back(variable.read());
  return values;
}

void update_one_by_one(OptimizerState& state, const UpdateRun& run,
                       const std::vector<at::Tensor>& gradients) {
  state.apply_whole(0, run, gradients);
}

UpdateFunction update_in_shards(std::int64_t shard) {
  return [shard](OptimizerState& state, const UpdateRun& run,
                 const std::vector<at::Tensor>& gradients) {
    const at::Tensor flat = at::zeros({run.end - run.begin});
    for (std::size_t i = 0; i < gradients.size(); ++i)
      flat.narrow(0, state.variables()[i].offset() - run.begin, gradients[i].numel())
          .copy_(gradients[i]);
    for (std::int64_t begin = run.begin; begin < run.end; begin += shard) {
      const std::int64_t end = std::min(begin + shard, run.end);
      state.apply(0, run, begin, end, flat.narrow(0, begin - run.begin, end - begin));
    }
  };
}

// libtorch's fused kernels compute the last elements of a range in another precision.
TEST(OptimizerState, BitsDoNotDependOnHowAnUpdateIsDivided) {
  const std::vector<UpdateRulePtr> rules = {
      Sgd{.learning_rate = 0.03}.rule(),
      Sgd{.learning_rate = 0.03, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true}.rule(),
      Adam{.learning_rate = 0.01}.rule(),
      AdamW{.learning_rate = 0.01}.rule(),
      Adagrad{.learning_rate = 0.01}.rule(),
      RmsProp{.learning_rate = 0.01}.rule()};
  for (const UpdateRulePtr& rule : rules) {
    const auto one_by_one = updated(rule, update_one_by_one);
    for (const std::int64_t shard : {64, 100, 1000}) {
      const auto in_shards = updated(rule, update_in_shards(shard));
      for (std::size_t i = 0; i < one_by_one.size(); ++i)
        EXPECT_TRUE(in_shards[i].equal(one_by_one[i])) << rule->name() << ", variable " << i;
    }
  }
}

}  // namespace

}  // namespace brigade::optim
