#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/restore.h"
#include "brigade/device/device_functions.h"
#include "brigade/ps/testing/job_of_threads.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/layer_value.h"
#include "brigade/variables/partitioner.h"
#include "brigade/variables/variable_scope.h"

/// Variables in parts on several servers, and variables whose server a device scope chooses.
namespace brigade::ps {
namespace {

using distribute::error_from;
using distribute::mentions;
using testing::expect_equal_bits;
using testing::JobOfThreads;
using testing::on_one_device;
using testing::Plan;
using testing::SavedTraining;
using testing::SmallNet;
using testing::Training;
using testing::Weights;

/// 32: every part that is trained fills whole vectors of the kernels, which round differently at
/// the end of a range that does not.
Plan plan_of_parts(std::int64_t steps = 6) {
  return {.steps = steps, .hidden = 32};
}

/// The second dimension, of matrices only.
std::vector<std::int64_t> two_columns(at::IntArrayRef shape, at::ScalarType /*dtype*/) {
  return {1, shape[1] >= 2 ? 2 : 1};
}

const std::vector<std::pair<std::string, variables::Partitioner>>& partitioners() {
  static const std::vector<std::pair<std::string, variables::Partitioner>> all = {
      {"two parts", variables::fixed_size_partitioner(2)},
      {"four parts", variables::fixed_size_partitioner(4)},
      {"columns", two_columns},
      {"large variables",
       variables::min_max_variable_partitioner({.max_parts = 2, .min_part_bytes = 1024})}};
  return all;
}

/// The placement log of a strategy: "first/part_0: (variable): /job:ps/task:0".
struct PlacementLines {
  device::PlacementOptions options(device::MissingDevice missing) {
    return {.missing = missing, .log = true, .sink = [this](std::string_view line) {
              lines.emplace_back(line);
            }};
  }
  /// Of the servers' variables, in the order in which they were placed.
  std::vector<std::string> servers() const {
    std::vector<std::string> found;
    for (const std::string& line : lines)
      if (line.find("(variable): /job:ps") != std::string::npos) found.push_back(line);
    return found;
  }
  std::vector<std::string> lines;
};

TEST(PartitionedTraining, GivesTheBitsOfOneDevice) {
  const Plan plan = plan_of_parts();
  const Weights expected = on_one_device(plan);
  for (const auto& [name, partitioner] : partitioners()) {
    for (const int servers : {1, 2, 3}) {
      JobOfThreads job(servers, 1);
      const auto strategy = job.join(0, {.variable_partitioner = partitioner});
      expect_equal_bits(trained_by(*strategy, plan), expected,
                        base::str_cat(name, ", ", servers, " servers"));
      EXPECT_EQ(job.step(), plan.steps);
    }
  }
}

TEST(PartitionedTraining, GivesTheSameBitsInEachMode) {
  const Plan plan = plan_of_parts();
  const Weights expected = on_one_device(plan);
  for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kBounded, UpdateMode::kSync}) {
    JobOfThreads job(2, 1);
    const auto strategy =
        job.join(0, {.mode = mode, .variable_partitioner = variables::fixed_size_partitioner(2)});
    expect_equal_bits(trained_by(*strategy, plan), expected,
                      base::str_cat("mode ", static_cast<int>(mode)));
  }
}

TEST(PartitionedTraining, OfSynchronousWorkersGivesTheBitsOfWholeVariables) {
  const Plan plan = plan_of_parts();
  expect_equal_bits(testing::trained_in_sync(
                        2, 3, plan, {.variable_partitioner = variables::fixed_size_partitioner(2)}),
                    testing::trained_in_sync(2, 3, plan), "in two parts");
}

TEST(PartitionedTraining, PartsAreOnDifferentServers) {
  JobOfThreads job(2, 1);
  PlacementLines log;
  const auto strategy = job.join(
      0, {.variable_partitioner =
              variables::min_max_variable_partitioner({.max_parts = 2, .min_part_bytes = 1024}),
          .placement = log.options(device::MissingDevice::kRefuse)});
  const Training training(*strategy, plan_of_parts());
  EXPECT_EQ(log.servers(), (std::vector<std::string>{"first: (variable): /job:ps/task:0",
                                                     "shift: (variable): /job:ps/task:1",
                                                     "second/part_0: (variable): /job:ps/task:0",
                                                     "second/part_1: (variable): /job:ps/task:1",
                                                     "unused: (variable): /job:ps/task:0"}));
}

TEST(PartitionedTraining, CheckpointsContinueOnAnyNumberOfPartsAndServers) {
  const Plan plan = plan_of_parts(8);
  const Weights expected = on_one_device(plan);
  const auto halves = variables::fixed_size_partitioner(2);

  JobOfThreads job(2, 1);
  const auto first = job.join(0, {.variable_partitioner = halves});
  Training in_halves(*first, plan);
  in_halves.steps(0, 4);
  const SavedTraining saved = save(*first, in_halves);
  EXPECT_EQ(saved.optimizer.slots.at("adam/exp_avg/second").sizes(), at::IntArrayRef({32, 16}));
  EXPECT_EQ(saved.optimizer.state.as_int64("steps", "first"), 4);

  distribute::OneDeviceStrategy one("cpu:0");
  Training whole(one, plan);
  restore(one, whole, saved);
  whole.steps(4, plan.steps);
  expect_equal_bits(whole.weights(), expected, "on one device");

  for (const auto& [name, partitioner] : partitioners()) {
    JobOfThreads other(3, 1);
    const auto second = other.join(0, {.variable_partitioner = partitioner});
    Training on_three(*second, plan);
    restore(*second, on_three, saved);
    on_three.steps(4, plan.steps);
    expect_equal_bits(on_three.weights(), expected, base::str_cat("three servers, ", name));
  }
}

TEST(PartitionedTraining, CheckpointsOfOneDeviceContinueInParts) {
  const Plan plan = plan_of_parts(8);
  const Weights expected = on_one_device(plan);
  distribute::OneDeviceStrategy one("cpu:0");
  Training whole(one, plan);
  whole.steps(0, 4);
  SavedTraining saved{
      .weights = whole.weights(), .optimizer = whole.optimizer().state().save("adam"), .step = 4};
  for (auto& [name, slot] : saved.optimizer.slots) slot = slot.clone();

  JobOfThreads job(2, 1);
  const auto strategy = job.join(0, {.variable_partitioner = variables::fixed_size_partitioner(2)});
  Training in_halves(*strategy, plan);
  restore(*strategy, in_halves, saved);
  in_halves.steps(4, plan.steps);
  expect_equal_bits(in_halves.weights(), expected, "in two parts");
  EXPECT_EQ(job.step(), plan.steps);
}

TEST(PartitionedTraining, ARestartOfServersChangesNoBit) {
  Plan plan = plan_of_parts();
  const Weights expected = on_one_device(plan);
  JobOfThreads job(2, 1);
  plan.before_step = [&](std::int64_t step, const distribute::Optimizer&) {
    if (step == 2) job.servers()[0].restart();
    if (step == 4) job.servers()[1].restart();
  };
  const auto strategy = job.join(0, {.variable_partitioner = variables::fixed_size_partitioner(2)});
  expect_equal_bits(trained_by(*strategy, plan), expected, "with restarts");
}

TEST(PartitionedTraining, AWorkerWithAnotherPartitionerIsRefused) {
  JobOfThreads job(2, 2);
  const auto chief = job.join(0, {.variable_partitioner = variables::fixed_size_partitioner(2)});
  Training training(*chief, plan_of_parts());
  training.steps(0, 1);
  const auto worker = job.join(1);
  Training other(*worker, plan_of_parts());
  const Error error = error_from([&] { other.step(0); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_TRUE(mentions(error, "first")) << error.what();
  EXPECT_EQ(job.step(), 1);
}

TEST(PartitionedTraining, ADeviceScopeChoosesTheServerAndTheStrategyTheRest) {
  JobOfThreads job(2, 1);
  PlacementLines log;
  const auto strategy = job.join(0, {.placement = log.options(device::MissingDevice::kRefuse)});
  const auto scope = strategy->scope();
  std::vector<variables::Variable> made;
  const auto make = [&](const std::string& name) {
    made.push_back(variables::get_variable(name, {{4}}));
  };
  make("a");
  {
    const auto device = device::with_device("/job:ps/task:1");
    make("b");
    make("c");
  }
  make("d");
  make("e");
  const auto optimizer = strategy->make_optimizer(made, optim::Adam{}.rule());
  EXPECT_EQ(log.servers(), (std::vector<std::string>{
                               "a: (variable): /job:ps/task:0", "b: (variable): /job:ps/task:1",
                               "c: (variable): /job:ps/task:1", "d: (variable): /job:ps/task:1",
                               "e: (variable): /job:ps/task:0"}));
  EXPECT_EQ(log.lines.size(), made.size()) << "one line for each variable";
}

TEST(PartitionedTraining, AReplicaDeviceSetterPlacesTheVariablesOfAModule) {
  const Plan plan = plan_of_parts();
  JobOfThreads job(3, 2);
  std::mutex mutex;
  std::vector<std::string> lines;
  job.run({.mode = UpdateMode::kSync}, [&](ParameterServerStrategy& strategy) {
    // Every worker makes its own setter, and all come to the same assignment.
    const auto device = device::with_device(device::replica_device_setter({.ps_tasks = 2}));
    Training training(strategy, plan);
    training.steps(0, 2);
    if (!strategy.is_chief()) return;
    const std::lock_guard lock(mutex);
    for (const auto& variable : training.variables())
      lines.push_back(base::str_cat(variable.name(), " ", variable.requested_device()));
  });
  EXPECT_EQ(job.step(), 2);
  EXPECT_EQ(lines, (std::vector<std::string>{"first /job:ps/task:0", "shift /job:ps/task:1",
                                             "second /job:ps/task:0", "unused /job:ps/task:1"}));
}

TEST(PartitionedTraining, ATaskThatDoesNotExistIsRefusedUnlessPlacementIsSoft) {
  for (const device::MissingDevice missing :
       {device::MissingDevice::kRefuse, device::MissingDevice::kFallBack}) {
    JobOfThreads job(2, 1);
    PlacementLines log;
    const auto strategy = job.join(0, {.placement = log.options(missing)});
    const auto make = [&] {
      const auto device = device::with_device("/job:ps/task:5");
      const Training training(*strategy, plan_of_parts());
    };
    if (missing == device::MissingDevice::kFallBack) {
      make();
      EXPECT_EQ(log.servers().size(), 4u);
      continue;
    }
    const Error error = error_from(make);
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_TRUE(mentions(error, "first")) << error.what();
    EXPECT_TRUE(mentions(error, "/job:ps/task:1")) << error.what();
  }
}

/// One layer whose weights the program may divide.
struct PartitionedLayer {
  variables::Partitioner partitioner;
  at::Tensor operator()(const at::Tensor& x) const {
    const auto scope = variables::variable_scope("layer", {.partitioner = partitioner});
    return x.mm(variables::get_value("w", {{8, 16}}));
  }
};

/// A training of the layer, and its checkpoint.
class LayerTraining {
 public:
  LayerTraining(distribute::Strategy& strategy, const variables::Partitioner& partitioner)
      : strategy_(strategy),
        model_(strategy.create(PartitionedLayer{partitioner}, testing::waves(4, 8, 0.1))),
        optimizer_(strategy.make_optimizer(model_.variables(), optim::Adam{}.rule())) {}

  void steps(std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step < last; ++step) {
      strategy_.run([&] {
        const at::Tensor x = testing::waves(8, 8, static_cast<double>(step));
        optimizer_.minimize((model_(x) - x.mean()).square().mean(1));
      });
    }
  }
  checkpoint::Snapshot save() const {
    strategy_.fetch_state();
    checkpoint::Contents contents{.variables = model_.variables()};
    for (const auto& [name, slot] : optimizer_.state().save("adam").slots)
      contents.tensors.push_back({name, slot});
    return checkpoint::take_snapshot(1, contents, checkpoint::SnapshotMemory::kOwn);
  }
  void restore(const checkpoint::Snapshot& saved, const io::StateTree& optimizer) {
    checkpoint::restore_variables(saved.variables, "the snapshot", model_.variables());
    optim::SavedOptimizer state{.slots = {}, .state = optimizer};
    for (const auto& [name, slot] : saved.tensors) state.slots[name] = slot;
    optimizer_.restore("adam", state);
    strategy_.store_state();
  }
  io::StateTree optimizer_state() const { return optimizer_.state().save("adam").state; }

 private:
  distribute::Strategy& strategy_;
  decltype(std::declval<distribute::Strategy&>().create(std::declval<PartitionedLayer>(),
                                                        std::declval<at::Tensor>())) model_;
  distribute::Optimizer optimizer_;
};

Weights layer_on_one_device(std::int64_t steps) {
  distribute::OneDeviceStrategy one("cpu:0");
  LayerTraining training(one, {});
  training.steps(0, steps);
  return {{"layer/w", training.save().variables.front().tensor}};
}

TEST(PartitionedTraining, PartitionsOfTheProgramAreOnDifferentServersAndSavedAsOne) {
  const Weights expected = layer_on_one_device(6);
  JobOfThreads job(2, 1);
  PlacementLines log;
  const auto strategy = job.join(0, {.placement = log.options(device::MissingDevice::kRefuse)});
  LayerTraining halves(*strategy, variables::fixed_size_partitioner(2));
  EXPECT_EQ(log.servers(),
            (std::vector<std::string>{"layer/w/part_0: (variable): /job:ps/task:0",
                                      "layer/w/part_1: (variable): /job:ps/task:1"}));
  halves.steps(0, 3);
  const checkpoint::Snapshot saved = halves.save();
  ASSERT_EQ(saved.variables.size(), 1u);
  EXPECT_EQ(saved.variables.front().name, "layer/w");

  distribute::OneDeviceStrategy one("cpu:0");
  LayerTraining whole(one, {});
  whole.restore(saved, halves.optimizer_state());
  whole.steps(3, 6);
  expect_equal_bits({{"layer/w", whole.save().variables.front().tensor}}, expected,
                    "on one device");

  JobOfThreads other(3, 1);
  const auto on_three = other.join(0);
  LayerTraining quarters(*on_three, variables::fixed_size_partitioner(4));
  quarters.restore(saved, halves.optimizer_state());
  quarters.steps(3, 6);
  expect_equal_bits({{"layer/w", quarters.save().variables.front().tensor}}, expected,
                    "on three servers");
}

}  // namespace
}  // namespace brigade::ps
