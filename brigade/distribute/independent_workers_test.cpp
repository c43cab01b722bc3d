// Workers that share no collectives: here strategies of one process that share variables in memory.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "brigade/data/sources/text_lines.h"
#include "brigade/data/testing/file_folder.h"
#include "brigade/distribute/testing/shared_job.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/optim/sgd.h"
#include "brigade/variables/variable_lists.h"

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;
using Policy = AutoShardPolicy;

constexpr int kWorkers = 3;

struct RandomModule : torch::nn::Module {
  RandomModule() { weight = register_parameter("weight", at::rand({4}, at::kDouble)); }
  at::Tensor weight;
};

/// One parameter, 0, whose gradient by `sum` is 1.
struct OneNumber : torch::nn::Module {
  OneNumber() { value = register_parameter("value", at::zeros({}, at::kDouble)); }
  at::Tensor value;
};

/// A worker with a model and an optimizer.
struct NumberWorker {
  NumberWorker(SharedJob& job, WorkerIndex worker, int replicas = 1,
               const OptimizerOptions& options = {})
      : strategy(job, worker, replicas),
        model(strategy.create<OneNumber>()),
        sgd(strategy.optimizer(model, optim::Sgd{}, options)) {}
  void step() {
    strategy.run([&] { sgd.minimize(model->value * 1.0, LossScale::kSum); });
  }
  double value() const { return model->value.item<double>(); }

  SharedJobStrategy strategy;
  Replicated<OneNumber> model;
  Optimizer sgd;
};

TEST(IndependentWorkers, KnowTheirIndexAndCountTheirOwnReplicas) {
  SharedJob job;
  const SharedJobStrategy strategy(job, {.index = 1, .count = kWorkers}, 2);
  EXPECT_EQ(strategy.worker_index(), 1);
  EXPECT_EQ(strategy.num_workers(), kWorkers);
  EXPECT_FALSE(strategy.is_chief());
  EXPECT_EQ(strategy.workers(), nullptr);
  EXPECT_FALSE(strategy.has_worker_collectives());
  EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
  EXPECT_EQ(strategy.replica_range().first, 0);
  EXPECT_EQ(strategy.replica_range().local, 2);
  EXPECT_EQ(strategy.replica_range().total, 2);
  EXPECT_TRUE(SharedJobStrategy(job, {.index = 0, .count = kWorkers}).is_chief());
}

TEST(IndependentWorkers, AnIndexThatDoesNotExistIsRefused) {
  SharedJob job;
  for (const WorkerIndex worker : {WorkerIndex{3, 3}, WorkerIndex{-1, 3}, WorkerIndex{0, 0}}) {
    const Error error = error_from([&] { const SharedJobStrategy strategy(job, worker); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(mentions(error, "of shared_job is worker")) << error.what();
  }
}

struct StrategyOfBoth : Strategy {
  StrategyOfBoth()
      : Strategy({.name = "both",
                  .devices = plain_cpus(1),
                  .workers = std::make_shared<const WorkerGroup>(),
                  .worker = {.index = 0, .count = 2}}) {}
};

TEST(IndependentWorkers, AWorkerOfBothKindsIsRefused) {
  const Error error = error_from([] { const StrategyOfBoth strategy; });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "give one")) << error.what();
}

TEST(IndependentWorkers, HaveDifferentRandomNumbersAndTheSameInitialWeights) {
  SharedJob job;
  std::set<double> drawn;
  std::set<double> initial;
  for (int worker = 0; worker < kWorkers; ++worker) {
    SharedJobStrategy strategy(job, {.index = worker, .count = kWorkers}, 2);
    const auto model = strategy.create<RandomModule>();
    initial.insert(model->weight.sum().item<double>());
    const auto numbers = strategy.run([] { return at::rand({1}, at::kDouble).item<double>(); });
    drawn.insert(numbers.values().begin(), numbers.values().end());
  }
  EXPECT_EQ(drawn.size(), 2u * kWorkers);
  EXPECT_EQ(initial.size(), 1u);
}

TEST(IndependentWorkers, TheFirstWorkerDrawsWhatASingleOneDraws) {
  const auto draw = [](Strategy& strategy) {
    return strategy.run([] { return at::rand({1}, at::kDouble).item<double>(); }).values();
  };
  SharedJob job;
  SharedJobStrategy chief(job, {.index = 0, .count = kWorkers}, 2);
  SharedJobStrategy alone(job, {}, 2);
  EXPECT_EQ(draw(chief), draw(alone));
}

TEST(IndependentWorkers, ReduceAndGatherTheirOwnReplicas) {
  SharedJob job;
  SharedJobStrategy strategy(job, {.index = 2, .count = kWorkers}, 2);
  EXPECT_EQ(strategy.broadcast_from_chief(std::int64_t{7}), 7);
  EXPECT_EQ(strategy.broadcast_from_chief(std::string("own")), "own");
  EXPECT_EQ(strategy.all_reduce_max(5), 5);
  const auto ids = strategy.run(
      [](const ReplicaContext& context) { return at::full({1}, context.id + 1, at::kLong); });
  EXPECT_EQ(strategy.reduce(comm::ReduceOp::kSum, ids).item<std::int64_t>(), 3);
  EXPECT_EQ(strategy.reduce(comm::ReduceOp::kMax, ids).item<std::int64_t>(), 2);
  EXPECT_EQ(strategy.gather(ids, 0).numel(), 2);
  EXPECT_EQ(strategy.gather_workers(at::zeros({2})).numel(), 2);
}

// Input.

data::Dataset<at::Tensor> numbers_up_to(std::int64_t count) {
  return input::from_tensor_slices(at::arange(count));
}

void add_numbers(const PerReplica<at::Tensor>& batch, Numbers& numbers) {
  for (const at::Tensor& own : batch.values()) {
    for (std::int64_t i = 0; i < own.numel(); ++i) numbers.push_back(own[i].item<std::int64_t>());
  }
}

/// What worker `worker` reads in one epoch.
Numbers read_by(int worker, const data::Dataset<at::Tensor>& batches, const InputOptions& options) {
  SharedJob job;
  const SharedJobStrategy strategy(job, {.index = worker, .count = kWorkers}, 2);
  Numbers numbers;
  for (const auto& batch : strategy.distribute(batches, options)) {
    const Numbers& local = batch.examples()->local;
    EXPECT_EQ(batch.examples()->global, local[0] + local[1]) << "a batch of this worker alone";
    add_numbers(batch, numbers);
  }
  return numbers;
}

/// What all workers read, sorted. Each reads its whole epoch before the next begins: so none waits
/// for another.
Numbers read_by_all(const data::Dataset<at::Tensor>& batches, Policy policy) {
  Numbers all;
  for (int worker = 0; worker < kWorkers; ++worker) {
    const Numbers own = read_by(worker, batches, {.auto_shard = policy});
    all.insert(all.end(), own.begin(), own.end());
  }
  std::ranges::sort(all);
  return all;
}

data::Dataset<at::Tensor> numbers_in(const data::testing::Folder& folder,
                                     const std::vector<io::Path>& files) {
  return data::text_lines(files, {.file_system = folder.files()}).map([](const std::string& line) {
    return at::scalar_tensor(std::stol(line), at::kLong);
  });
}

Numbers first_numbers(std::int64_t count) {
  Numbers numbers;
  for (std::int64_t number = 0; number < count; ++number) numbers.push_back(number);
  return numbers;
}

TEST(IndependentWorkers, ReadEachExampleOnceUnderEveryPolicyThatShards) {
  const auto batches = numbers_up_to(23).shuffle(9).batch(4);
  EXPECT_EQ(read_by_all(batches, Policy::kAuto), first_numbers(23));
  EXPECT_EQ(read_by_all(batches, Policy::kData), first_numbers(23));
  EXPECT_EQ(read_by_all(numbers_up_to(23).shuffle(9).shard_hint().batch(4), Policy::kHint),
            first_numbers(23));
  data::testing::Folder folder;
  const auto files =
      numbers_in(folder, {folder.write("a", "0\n1\n2\n3\n4\n"), folder.write("b", "5\n"),
                          folder.write("c", "6\n7\n"), folder.write("d", "8\n9\n10\n")});
  EXPECT_EQ(read_by_all(files.batch(2), Policy::kAuto), first_numbers(11));
  EXPECT_EQ(read_by_all(files.batch(2), Policy::kFile), first_numbers(11));
  EXPECT_EQ(read_by(1, files.batch(2), {.auto_shard = Policy::kFile}), Numbers({5}));
}

TEST(IndependentWorkers, TakeEveryThirdGlobalBatchOfSharedData) {
  const auto batches = numbers_up_to(20).batch(4);
  EXPECT_EQ(read_by(0, batches, {}), Numbers({0, 1, 2, 3, 12, 13, 14, 15}));
  EXPECT_EQ(read_by(2, batches, {}), Numbers({8, 9, 10, 11}));
  SharedJob job;
  const SharedJobStrategy strategy(job, {.index = 1, .count = kWorkers}, 2);
  EXPECT_EQ(strategy.distribute(batches).cardinality(), 2);
  EXPECT_EQ(strategy.distribute(batches, {.auto_shard = Policy::kOff}).cardinality(), 5);
}

TEST(IndependentWorkers, WithoutShardingEachReadsAllInAnotherOrder) {
  const auto batches = numbers_up_to(20).shuffle(20).batch(4);
  std::set<Numbers> orders;
  for (int worker = 0; worker < kWorkers; ++worker) {
    Numbers numbers = read_by(worker, batches, {.auto_shard = Policy::kOff});
    orders.insert(numbers);
    std::ranges::sort(numbers);
    EXPECT_EQ(numbers, first_numbers(20));
  }
  EXPECT_EQ(orders.size(), std::size_t{kWorkers});
}

TEST(IndependentWorkers, AWorkerResumesFromItsPosition) {
  const auto batches = numbers_up_to(40).shuffle(9).batch(4);
  SharedJob job;
  const SharedJobStrategy first(job, {.index = 1, .count = kWorkers}, 2);
  auto iterator = first.distribute(batches).iterator();
  ASSERT_TRUE(iterator.next().has_value());
  const io::StateTree position = iterator.save();
  Numbers expected;
  while (const auto batch = iterator.next()) add_numbers(*batch, expected);
  ASSERT_FALSE(expected.empty());

  const SharedJobStrategy again(job, {.index = 1, .count = kWorkers}, 2);
  auto resumed = again.distribute(batches).iterator();
  resumed.restore(position);
  Numbers read;
  while (const auto batch = resumed.next()) add_numbers(*batch, read);
  EXPECT_EQ(read, expected);
}

Numbers numbers_left(DistributedIterator<at::Tensor>& iterator) {
  Numbers numbers;
  while (const auto batch = iterator.next()) add_numbers(*batch, numbers);
  return numbers;
}

TEST(IndependentWorkers, APositionIsThatOfAllWorkersAndOfOtherStrategies) {
  const auto batches = numbers_up_to(40).batch(4);
  SharedJob job;
  const SharedJobStrategy worker(job, {.index = 1, .count = kWorkers}, 2);
  const MirroredStrategy mirrored(cpus(2));
  auto workers = worker.distribute(batches).iterator();
  ASSERT_TRUE(workers.next().has_value());  // batch 1 of the first three
  const io::StateTree position = workers.save();
  auto alone = mirrored.distribute(batches).iterator();
  alone.restore(position);
  const auto next = alone.next();
  ASSERT_TRUE(next.has_value());
  Numbers numbers;
  add_numbers(*next, numbers);
  EXPECT_EQ(numbers, Numbers({12, 13, 14, 15}));

  const io::StateTree of_mirrored = alone.save();  // after batch 3
  workers.restore(of_mirrored);
  EXPECT_EQ(numbers_left(workers), Numbers({20, 21, 22, 23, 32, 33, 34, 35}));
  const SharedJobStrategy other(job, {.index = 2, .count = kWorkers}, 2);
  auto others = other.distribute(batches).iterator();
  others.restore(position);
  EXPECT_EQ(numbers_left(others), Numbers({20, 21, 22, 23, 32, 33, 34, 35}));
}

TEST(IndependentWorkers, AFunctionMakesThePipelineOfItsWorker) {
  SharedJob job;
  const SharedJobStrategy strategy(job, {.index = 1, .count = kWorkers}, 2);
  std::vector<InputContext> contexts;
  const auto make = [&](const InputContext& context) {
    contexts.push_back(context);
    return numbers_up_to(12).shard(context.num_input_pipelines, context.input_pipeline_id).batch(2);
  };
  Numbers numbers;
  for (const auto& batch : strategy.distribute_from_function(make)) add_numbers(batch, numbers);
  EXPECT_EQ(numbers, Numbers({1, 4, 7, 10}));
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_EQ(contexts[0].num_input_pipelines, kWorkers);
  EXPECT_EQ(contexts[0].num_replicas_in_sync, 2);
  contexts.clear();
  strategy.distribute_from_function(make, {.replication = InputReplication::kPerReplica});
  ASSERT_EQ(contexts.size(), 2u);
  EXPECT_EQ(contexts[1].num_input_pipelines, 2 * kWorkers);
  EXPECT_EQ(contexts[1].input_pipeline_id, 3);
}

TEST(IndependentWorkers, AMapOnReplicasKnowsTheReplicaAmongAll) {
  SharedJob job;
  const SharedJobStrategy strategy(job, {.index = 2, .count = kWorkers}, 2);
  std::vector<int> replicas;
  const auto mapped = strategy.distribute(numbers_up_to(12).batch(4))
                          .map_on_replica([&](at::Tensor batch, ReplicaMapContext& context) {
                            replicas.push_back(context.replica);
                            return batch;
                          });
  mapped.iterator().next();
  EXPECT_EQ(replicas, std::vector<int>({4, 5}));
}

// Steps.

TEST(IndependentWorkers, EachRunBeginsAStep) {
  SharedJob job;
  NumberWorker worker(job, {.index = 0, .count = kWorkers}, 2);
  worker.step();
  worker.step();
  EXPECT_EQ(job.begun_steps, 2);
  EXPECT_EQ(job.step, 2);
  EXPECT_EQ(worker.value(), -4) << "two replicas, two steps";
}

TEST(IndependentWorkers, AStepThatCannotBeginLeavesNothingRunning) {
  SharedJob job;
  NumberWorker worker(job, {.index = 0, .count = kWorkers}, 2);
  worker.step();
  const std::uint64_t steps = worker.strategy.step();
  job.on_begin_step = [] { throw Error(ErrorCode::kUnavailable, "the server is away"); };
  bool has_run = false;
  const Error error = error_from([&] { worker.strategy.run([&] { has_run = true; }); });
  EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(mentions(error, "the server is away")) << error.what();
  EXPECT_FALSE(has_run);
  EXPECT_EQ(worker.strategy.step(), steps);
  job.on_begin_step = {};
  worker.step();
  EXPECT_EQ(job.step, 2);
}

TEST(IndependentWorkers, AnOptimizerThatIsGoneBeginsNoStep) {
  SharedJob job;
  SharedJobStrategy strategy(job, {.index = 0, .count = kWorkers});
  const auto model = strategy.create<OneNumber>();
  {
    const Optimizer sgd = strategy.optimizer(model, optim::Sgd{});
    EXPECT_EQ(strategy.global_step(), 0);
  }
  strategy.run([] {});
  EXPECT_EQ(job.begun_steps, 0);
  EXPECT_EQ(strategy.global_step(), std::nullopt);
}

/// The gradient of one number by a mean over 5 examples on two replicas.
std::vector<double> gradients_of_mean(double loss_weight) {
  SharedJob job{.loss_weight = loss_weight};
  NumberWorker worker(job, {.index = 0, .count = kWorkers}, 2);
  const auto batch = worker.strategy.split_batch(at::zeros({5}, at::kDouble));
  return worker.strategy
      .run(
          [&](const at::Tensor&) {
            return worker.sgd.compute_gradients(worker.model->value * 1.0)["value"].item<double>();
          },
          batch)
      .values();
}

TEST(IndependentWorkers, TheWeightOfAMeanIsRoundedOnce) {
  EXPECT_EQ(gradients_of_mean(1.0), std::vector<double>({3.0 / 5.0, 2.0 / 5.0}));
  for (const double workers : {2.0, 3.0, 7.0}) {
    const double weight = 1.0 / workers;
    EXPECT_EQ(gradients_of_mean(weight),
              std::vector<double>({3.0 / 5.0 * weight, 2.0 / 5.0 * weight}));
  }
}

TEST(IndependentWorkers, SumsAreNotWeighted) {
  SharedJob job{.loss_weight = 1.0 / 3};
  NumberWorker worker(job, {.index = 0, .count = kWorkers});
  worker.step();
  EXPECT_EQ(worker.value(), -1);
}

TEST(IndependentWorkers, AccumulatedMeansAreWeighted) {
  SharedJob job{.loss_weight = 0.25};
  NumberWorker worker(job, {.index = 0, .count = kWorkers}, 2, {.accumulate = 2});
  const auto batch = worker.strategy.split_batch(at::zeros({6}, at::kDouble));
  for (int i = 0; i < 2; ++i)
    worker.strategy.run([&](const at::Tensor&) { worker.sgd.minimize(worker.model->value * 1.0); },
                        batch);
  EXPECT_EQ(job.step, 1);
  EXPECT_NEAR(worker.value(), -0.25, 1e-15);
}

TEST(IndependentWorkers, TheRestOfAnAccumulationGoesToTheJob) {
  SharedJob job;
  NumberWorker worker(job, {.index = 0, .count = kWorkers}, 2, {.accumulate = 3});
  worker.step();
  EXPECT_EQ(job.step, 0);
  worker.sgd.flush();
  EXPECT_EQ(job.step, 1);
  EXPECT_EQ(job.states.at("value").value.item<double>(), -2);
  EXPECT_EQ(worker.value(), -2);
}

TEST(IndependentWorkers, CountUpdatesTogether) {
  SharedJob job;
  const auto counter = [](SharedJobStrategy& strategy) {
    const auto scope = strategy.scope();
    return variables::get_or_create_global_step();
  };
  struct Counting {
    Counting(SharedJob& shared, int index, const decltype(counter)& count)
        : strategy(shared, {.index = index, .count = 2}),
          model(strategy.create<OneNumber>()),
          global_step(count(strategy)),
          sgd(strategy.optimizer(model, optim::Sgd{}, {.global_step = global_step})) {}
    void step() {
      strategy.run([&] { sgd.minimize(model->value * 1.0, LossScale::kSum); });
    }
    SharedJobStrategy strategy;
    Replicated<OneNumber> model;
    variables::Variable global_step;
    Optimizer sgd;
  };
  Counting chief(job, 0, counter);
  Counting worker(job, 1, counter);
  chief.step();
  worker.step();
  EXPECT_EQ(chief.sgd.updates(), 1);
  EXPECT_EQ(worker.sgd.updates(), 2);
  chief.step();
  EXPECT_EQ(chief.sgd.updates(), 3);
  EXPECT_EQ(chief.strategy.global_step(), 3);
  EXPECT_EQ(chief.global_step.local().item<std::int64_t>(), 3);
  EXPECT_EQ(worker.global_step.local().item<std::int64_t>(), 2);
  EXPECT_EQ(chief.model->value.item<double>(), -3);
}

TEST(IndependentWorkers, StateIsStoredByTheChiefAndFetchedByTheOthers) {
  SharedJob job;
  NumberWorker chief(job, {.index = 0, .count = 2});
  NumberWorker worker(job, {.index = 1, .count = 2});
  EXPECT_THROW(worker.strategy.store_state(), Error) << "the chief has stored nothing";
  chief.model.variables()[0].assign(at::full({}, 5.0, at::kDouble));
  chief.strategy.set_global_step(40);
  chief.strategy.store_state();
  worker.strategy.store_state();
  EXPECT_EQ(worker.value(), 5);
  EXPECT_EQ(worker.strategy.global_step(), 40);
  worker.step();
  EXPECT_EQ(chief.value(), 5);
  chief.strategy.fetch_state();
  EXPECT_EQ(chief.value(), 4);
  EXPECT_EQ(chief.strategy.global_step(), 41);
  EXPECT_EQ(error_from([&] { chief.strategy.set_global_step(-1); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_from([&] { chief.strategy.run([&] { chief.strategy.fetch_state(); }); }).code(),
            ErrorCode::kFailedPrecondition);
}

TEST(IndependentWorkers, TheJobLearnsOfTheLearningRate) {
  SharedJob job;
  const NumberWorker chief(job, {.index = 0, .count = 2});
  chief.sgd.set_learning_rate(0.125);
  EXPECT_EQ(job.learning_rates, std::vector<double>({0.125}));
  chief.sgd.restore("sgd", chief.sgd.state().save("sgd"));
  EXPECT_EQ(job.learning_rates, std::vector<double>({0.125, 0.125}));
}

TEST(Strategy, HasNoStateElsewhereWithoutAJob) {
  MirroredStrategy strategy(cpus(2));
  const auto model = strategy.create<OneNumber>();
  const auto sgd = strategy.optimizer(model, optim::Sgd{});
  EXPECT_EQ(strategy.global_step(), std::nullopt);
  strategy.set_global_step(3);
  strategy.fetch_state();
  strategy.store_state();
  EXPECT_EQ(sgd.updates(), 0);
}

}  // namespace
}  // namespace brigade::distribute
