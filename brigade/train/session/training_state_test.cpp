#include "brigade/train/session/training_state.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/checkpoint/contents.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/testing/process_threads.h"
#include "brigade/distribute/testing/card_strategy.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/optim/moving_average.h"
#include "brigade/optim/schedule.h"
#include "brigade/train/session/training_names.h"
#include "brigade/train/testing/toy_training.h"

namespace brigade::train {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Missing;
using distribute::central_cpus;
using distribute::CentralStorageStrategy;
using distribute::cpus;
using distribute::error_from;
using distribute::mentions;
using distribute::MirroredStrategy;
using distribute::Strategy;

using MakeStrategy = std::function<std::unique_ptr<Strategy>()>;

MakeStrategy mirrored(int replicas, std::uint64_t seed = 3) {
  return [=] { return std::make_unique<MirroredStrategy>(cpus(replicas, seed)); };
}

MakeStrategy central(int replicas, variables::Caching caching) {
  return
      [=] { return std::make_unique<CentralStorageStrategy>(central_cpus(replicas, caching, 3)); };
}

/// 0.1, halved every two steps.
optim::SchedulePtr halving() {
  return optim::ExponentialDecay{.initial_learning_rate = 0.1, .decay_steps = 2, .decay_rate = 0.5}
      .schedule();
}

/// The current state of `training`, written and read back.
Checkpoint saved(const TrainingState& training, const std::shared_ptr<io::MemoryFileSystem>& files =
                                                    std::make_shared<io::MemoryFileSystem>()) {
  checkpoint::Saver saver(files,
                          {.directory = "/run", .writing = checkpoint::Writing::kForeground});
  saver.save(training.global_step(), training.contents());
  saver.close();
  return Checkpoint::open(files, saver.checkpoints().back());
}

/// All values that must be bit-identical.
struct Everything {
  explicit Everything(ToyTraining& training)
      : weights(training.weights()),
        accuracy(training.accuracy.result()),
        step(training.state.global_step()) {
    const checkpoint::Contents contents = training.state.contents();
    state = contents.state;
    for (const auto& each : contents.tensors) tensors.emplace(each.name, each.tensor.clone());
  }
  std::string weights;
  double accuracy;
  std::int64_t step;
  io::StateTree state;
  std::map<std::string, at::Tensor> tensors;
};

void expect_equal(const Everything& a, const Everything& b) {
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_EQ(a.accuracy, b.accuracy);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.state, b.state);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors)
    EXPECT_TRUE(tensor.equal(b.tensors.at(name))) << name;
}

void expect_resumes_exactly(const MakeStrategy& make) {
  const auto strategy = make();
  ToyTraining unbroken(*strategy);
  unbroken.steps(6);
  const auto first_strategy = make();
  ToyTraining first(*first_strategy);
  first.steps(3);
  const Checkpoint checkpoint = saved(first.state);
  const auto second_strategy = make();
  ToyTraining second(*second_strategy);
  const TrainingRestoreReport report = second.state.restore(checkpoint);
  EXPECT_EQ(report.step, 3);
  EXPECT_TRUE(report.differences.empty());
  EXPECT_TRUE(report.missing_in_checkpoint.empty());
  expect_equal(Everything(second), Everything(first));
  second.steps(3);
  expect_equal(Everything(second), Everything(unbroken));
}

TEST(TrainingState, AResumedRunEqualsAnUninterruptedOne) {
  expect_resumes_exactly(mirrored(1));
  expect_resumes_exactly(mirrored(2));
}

TEST(TrainingState, ResumesExactlyUnderCentralStorage) {
  expect_resumes_exactly(central(2, variables::Caching::kWhereNeeded));
  expect_resumes_exactly(central(2, variables::Caching::kAlways));
}

TEST(TrainingState, HasEqualValuesOnAnotherNumberOfReplicasOrUnderAnotherStrategy) {
  const auto two = mirrored(2)();
  ToyTraining first(*two);
  first.steps(3);
  const Checkpoint checkpoint = saved(first.state);
  for (const MakeStrategy& make :
       {mirrored(1), mirrored(3), central(2, variables::Caching::kAlways)}) {
    const auto strategy = make();
    ToyTraining second(*strategy);
    const TrainingRestoreReport report = second.state.restore(checkpoint);
    EXPECT_EQ(report.differences.size(), 1u);
    EXPECT_TRUE(second.model->hidden.equal(first.model->hidden));
    for (const auto& variable : second.model.variables()) {
      const auto value = variable.read();
      EXPECT_TRUE(value.allclose(checkpoint.tensor(variable.name()), 1e-6)) << variable.name();
    }
    EXPECT_DOUBLE_EQ(second.accuracy.result(), first.accuracy.result());
    EXPECT_EQ(second.adam.state().step(0), 3);
    const int last = strategy->num_replicas_in_sync() - 1;
    EXPECT_TRUE(second.adam.state().slot(0, 1, last).equal(first.adam.state().slot(0, 1, 0)));
    second.steps(1);  // and it trains
  }
}

TEST(TrainingState, ResumesWithTheNextExample) {
  const auto strategy = mirrored(1)();
  ToyTraining first(*strategy);
  first.steps(4);
  const Checkpoint checkpoint = saved(first.state);
  const at::Tensor next = (*first.batches.next())[0].features;
  first.state.restore(checkpoint);
  EXPECT_TRUE((*first.batches.next())[0].features.equal(next));
}

TEST(TrainingState, AFailedRestoreChangesNothing) {
  const auto strategy = mirrored(2)();
  ToyTraining first(*strategy);
  first.steps(2);
  first.state.add({.name = "moody",
                   .save = [] { return CheckpointableState{.tree = 1}; },
                   .restore = [](const CheckpointableState&) {}});
  const Checkpoint checkpoint = saved(first.state);
  const auto other = mirrored(2)();
  ToyTraining second(*other);
  second.steps(1);
  second.state.add({.name = "moody",
                    .save = [] { return CheckpointableState{.tree = 2}; },
                    .restore =
                        [](const CheckpointableState& state) {
                          check_argument(state.tree.as_int64() == 2, "restore refused");
                        }});
  const Everything before(second);
  const Error error = error_from([&] { second.state.restore(checkpoint); });
  EXPECT_TRUE(mentions(error, "restore refused")) << error.what();
  expect_equal(Everything(second), before);
}

TEST(TrainingState, RefusesAnotherModelOrRuleBeforeAnythingChanges) {
  const auto strategy = mirrored(2)();
  ToyTraining first(*strategy);
  first.steps(2);
  const Checkpoint checkpoint = saved(first.state);
  for (const std::int64_t width : {8, 5}) {
    const auto other = mirrored(2)();
    ToyTraining second(*other, {.learning_rate = 0.05, .beta2 = width == 8 ? 0.5 : 0.999}, width);
    const Everything before(second);
    const Error error = error_from([&] { second.state.restore(checkpoint); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    expect_equal(Everything(second), before);
  }
}

TEST(TrainingState, MissingStateIsNamedOrSkipped) {
  const auto strategy = mirrored(1)();
  ToyTraining first(*strategy);
  TrainingState weights_alone(*strategy);
  weights_alone.add_model(first.model);
  first.state.set_global_step(4);
  const Checkpoint checkpoint = saved(weights_alone);
  const Error error = error_from([&] { first.state.restore(checkpoint); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_TRUE(mentions(error, "[optimizer/adam]")) << error.what();
  EXPECT_EQ(first.state.global_step(), 4);
  const auto report = first.state.restore(checkpoint, {.missing_state = Missing::kSkip});
  EXPECT_EQ(report.missing_in_checkpoint,
            (std::vector<std::string>{"optimizer/adam", "iterator/train", "metric/accuracy"}));
  EXPECT_EQ(first.state.global_step(), 0);
  const Checkpoint whole = saved(first.state);
  EXPECT_EQ(weights_alone.restore(whole).unused_in_checkpoint,
            (std::vector<std::string>{"iterator/train", "metric/accuracy", "optimizer/adam"}));
}

TEST(TrainingState, RefusesACheckpointOfWeightsOnly) {
  const auto strategy = mirrored(1)();
  ToyTraining training(*strategy);
  const auto files = std::make_shared<io::MemoryFileSystem>();
  checkpoint::Saver saver(files,
                          {.directory = "/run", .writing = checkpoint::Writing::kForeground});
  saver.save(1, {.variables = training.model.variables()});
  const Error error = error_from(
      [&] { training.state.restore(Checkpoint::open(files, saver.checkpoints().back())); });
  EXPECT_TRUE(mentions(error, "restore_variables")) << error.what();
}

TEST(TrainingState, ReportsWhyARunIsNotBitIdentical) {
  const auto strategy = mirrored(1, 3)();
  ToyTraining first(*strategy);
  first.state.add_schedule("adam", halving());
  const Checkpoint checkpoint = saved(first.state);
  const auto other = mirrored(1, 4)();
  other->set_numerics(device::Numerics::kFast);
  ToyTraining second(*other);
  const auto report = second.state.restore(checkpoint);
  EXPECT_EQ(report.differences.size(), 3u);  // seed, numerics, schedule
  EXPECT_TRUE(std::ranges::any_of(report.differences, [](const std::string& each) {
    return each.find("reproducible numerics and restored with fast") != std::string::npos;
  }));
}

TEST(TrainingState, SchedulesSetTheRateOfTheGlobalStep) {
  const auto strategy = mirrored(1)();
  ToyTraining training(*strategy);
  training.state.add_schedule("adam", halving());
  training.state.set_global_step(4);
  training.state.apply_schedules();
  EXPECT_DOUBLE_EQ(training.adam.learning_rate(), 0.025);
  EXPECT_EQ(error_from([&] { training.state.add_schedule("sgd", halving()); }).code(),
            ErrorCode::kNotFound);
}

TEST(TrainingState, AveragesAndTheCountOfUpdatesAreRestored) {
  const auto make = [] { return mirrored(2)(); };
  const auto strategy = make();
  ToyTraining first(*strategy);
  optim::ExponentialMovingAverage averages({.decay = 0.5},
                                           std::span(first.model.variables()).first(1));
  first.state.add_averages("ema", averages);
  first.steps(2);
  averages.update();
  const Checkpoint checkpoint = saved(first.state);
  const at::Tensor average = averages.average(first.model.variables()[0]);
  first.steps(1);
  averages.update();
  first.state.restore(checkpoint);
  EXPECT_TRUE(averages.average(first.model.variables()[0]).equal(average));
}

TEST(TrainingState, CheckpointsHaveTheMetricsByWhichTheBestAreKept) {
  const auto strategy = mirrored(1)();
  ToyTraining training(*strategy);
  training.state.set_metric_value("accuracy", 0.25);
  training.state.set_metric_value("accuracy", 0.5);
  EXPECT_EQ(saved(training.state).metrics(), (std::map<std::string, double>{{"accuracy", 0.5}}));
}

TEST(TrainingState, AddsWhatWasCreatedOnce) {
  distribute::MirroredStrategy strategy(distribute::cpus(2));
  ToyTraining training(strategy);
  const auto second = strategy.optimizer(training.model, optim::Adam{});
  TrainingState state(strategy);
  state.add_created();
  state.add_created();
  const io::StateTree saved = state.contents().state;
  std::vector<std::string> names;
  for (const auto& [name, optimizer] : saved.at("optimizers").as_dict()) names.push_back(name);
  for (const auto& [name, part] : saved.at("parts").as_dict()) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"adam", "adam_1", "iterator/data", "metric/accuracy"}));
  EXPECT_EQ(state.variables().size(), training.model.variables().size());
  {
    const auto other = strategy.distribute(input::synthetic(4, {4}, 3).batch(2)).iterator();
    TrainingState with_other(strategy);
    with_other.add_created();
    EXPECT_TRUE(with_other.contents().state.at("parts").has("iterator/data_1"));
    training.state.add_created();  // has an iterator, and its own names
    EXPECT_FALSE(training.state.contents().state.at("parts").has("iterator/data"));
  }
}

TEST(TrainingState, ASaveRefusesAnOptimizerThatWasCreatedLater) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  ToyTraining training(strategy);
  TrainingState state(strategy);
  state.add_created();
  const auto later = strategy.optimizer(training.model, optim::Adam{});
  const Error error = distribute::error_from([&] { state.contents(); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  training.state.contents();  // has only what was added by name
  state.add_created();
  state.contents();
}

TEST(TrainingState, AnIteratorThatIsGoneIsAnErrorThatSaysWhatToDo) {
  distribute::MirroredStrategy strategy(distribute::cpus(1));
  TrainingState state(strategy);
  {
    const auto batches = strategy.distribute(input::synthetic(4, {4}, 3).batch(2)).iterator();
    state.add_created();
  }
  const Error error = distribute::error_from([&] { state.contents(); });
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(distribute::mentions(error, "iterator/data")) << error.what();
}

TEST(TrainingState, NamesAreUnique) {
  const auto strategy = mirrored(1)();
  ToyTraining training(*strategy);
  EXPECT_EQ(error_from([&] { training.state.add_optimizer("adam", training.adam); }).code(),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(error_from([&] { training.state.add_iterator("train", training.batches); }).code(),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(error_from([&] { training.state.add_optimizer("a b", training.adam); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_from([&] { training.state.set_global_step(-1); }).code(),
            ErrorCode::kInvalidArgument);
}

/// A worker whose two replicas are on different kinds of devices.
class WorkerOnTwoKinds final : public distribute::Strategy {
 public:
  explicit WorkerOnTwoKinds(std::shared_ptr<cluster::Membership> membership)
      : Strategy(parts_of(std::move(membership))) {}

 private:
  static distribute::StrategyParts parts_of(std::shared_ptr<cluster::Membership> membership) {
    distribute::StrategyParts parts{.name = "two_kinds",
                                    .devices = distribute::logical_cards(1),
                                    .timeout = std::chrono::seconds(60)};
    parts.devices.push_back(distribute::plain_cpus(1).front());
    parts.workers =
        distribute::make_worker_group(std::move(membership), {.devices = 2, .on_cpu = false});
    return parts;
  }
};

/// The statistic of each replica in a worker's checkpoint: of replica r of worker w it is 10 w + r.
std::vector<double> saved_statistics(WorkerOnTwoKinds& strategy) {
  const auto scope = strategy.scope();
  const variables::Variable seen =
      variables::make_variable({.name = "seen",
                                .initial = at::zeros({2}),
                                .trainable = false,
                                .synchronization = variables::Synchronization::kOnRead,
                                .aggregation = variables::Aggregation::kMean});
  for (int replica = 0; replica < 2; ++replica)
    seen.component(replica).fill_(10 * strategy.worker_index() + replica);
  TrainingState state(strategy);
  state.add_variables(std::span(&seen, 1));
  std::vector<double> values;
  for (const auto& [name, tensor] : state.contents().tensors) {
    EXPECT_EQ(name, replica_tensor_name(static_cast<int>(values.size()), "seen"));
    values.push_back(tensor.cpu()[1].item<double>());
  }
  return values;
}

TEST(TrainingState, ACheckpointHasTheStatisticsOfReplicasOnDifferentDevices) {
  device::testing::FakeDevice::get();
  comm::let_ranks_be_threads();
  const auto memberships = cluster::testing::make_in_memory_memberships(2);
  std::vector<std::vector<double>> statistics(2);
  std::vector<std::thread> workers;
  for (std::size_t worker = 0; worker < 2; ++worker) {
    workers.emplace_back([&, worker] {
      try {
        WorkerOnTwoKinds strategy(memberships[worker]);
        statistics[worker] = saved_statistics(strategy);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
        cluster::testing::lose(*memberships[worker], static_cast<int>(worker), "it failed");
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const auto& of_worker : statistics)
    EXPECT_EQ(of_worker, (std::vector<double>{0, 1, 10, 11}));
}

}  // namespace
}  // namespace brigade::train
