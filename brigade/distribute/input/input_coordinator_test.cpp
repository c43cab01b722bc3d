#include "brigade/distribute/input/input_coordinator.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <thread>

#include "brigade/comm/local/local_group.h"
#include "brigade/distribute/input/distributed_dataset.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/input/tensor_slices.h"

namespace brigade::distribute {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The second of two workers, each with one replica. It needs no peer: all have the same data.
DistributedIterator<at::Tensor> iterator_of_worker_1(AutoShardPolicy policy) {
  auto alone = std::make_shared<comm::LocalGroup>(1);
  std::shared_ptr<comm::Communicator> no_peers =
      std::move(comm::make_local_communicators(alone)[0]);
  const auto dataset = input::from_tensor_slices(at::arange(10)).batch(4);
  return {{.ops = kBatchOps<at::Tensor>,
           .datasets = {std::make_shared<AnyNode<at::Tensor>>(dataset.node())},
           .devices = {c10::Device(c10::kCPU)},
           .layout = {.replicas = {.first = 1, .local = 1, .total = 2},
                      .num_workers = 2,
                      .worker = 1,
                      .workers = no_peers},
           .policy = policy},
          {}};
}

std::vector<Numbers> rest_of(DistributedIterator<at::Tensor>& iterator) {
  std::vector<Numbers> batches;
  while (const auto batch = iterator.next()) {
    const at::Tensor own = (*batch)[0].contiguous();
    const auto* first = own.const_data_ptr<std::int64_t>();
    batches.emplace_back(first, first + own.numel());
  }
  return batches;
}

TEST(InputCoordinator, ByDataAWorkerTakesItsReplicasPartOfEachBatch) {
  auto iterator = iterator_of_worker_1(AutoShardPolicy::kData);
  EXPECT_EQ(rest_of(iterator), (std::vector<Numbers>{{2, 3}, {6, 7}, {9}}));
}

// TensorFlow, policy OFF, measured: both workers get [0, 1], [2, 3], [4, 5], ...
TEST(InputCoordinator, WithoutShardingAWorkerTakesAllPiecesOfEachBatch) {
  auto iterator = iterator_of_worker_1(AutoShardPolicy::kOff);
  EXPECT_EQ(rest_of(iterator), (std::vector<Numbers>{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8}, {9}}));
}

TEST(InputCoordinator, APositionWithinABatchIsRestored) {
  for (std::size_t taken = 0; taken <= 6; ++taken) {
    auto iterator = iterator_of_worker_1(AutoShardPolicy::kOff);
    for (std::size_t i = 0; i < taken; ++i) iterator.next();
    const io::StateTree saved = iterator.save();
    auto again = iterator_of_worker_1(AutoShardPolicy::kOff);
    again.restore(saved);
    EXPECT_EQ(rest_of(again), rest_of(iterator)) << "after " << taken;
  }
}

TEST(InputCoordinator, TheExamplesOfAStepAreCountedOverAllWorkers) {
  auto iterator = iterator_of_worker_1(AutoShardPolicy::kOff);
  EXPECT_EQ(iterator.next()->examples()->global, 4);  // both workers' 0 and 1
}

using Steps = std::vector<std::string>;

InputDescription by(AutoShardPolicy policy, const Steps& steps = {"numbers", "batch(4)"}) {
  return {.policy = policy, .pipeline = {steps.begin(), steps.end()}, .cardinality = 3};
}

/// What each worker's comparison throws; an empty text where it throws nothing.
std::vector<std::string> compared(const std::vector<InputDescription>& inputs) {
  auto group = std::make_shared<comm::LocalGroup>(
      static_cast<int>(inputs.size()),
      comm::LocalGroupOptions{.timeout = std::chrono::seconds(60), .spin = {}});
  const auto workers = comm::make_local_communicators(group);
  std::vector<std::string> texts(inputs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    threads.emplace_back([&, i] {
      texts[i] = error_from([&] { check_same_input(*workers[i], inputs[i]); }).what();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return texts;
}

void expect_agreed(const InputDescription& first, const InputDescription& second) {
  for (const std::string& text : compared({first, second})) EXPECT_EQ(text, "");
}

void expect_refused(const InputDescription& first, const InputDescription& second,
                    const std::string& text) {
  for (const std::string& each : compared({first, first, second}))
    EXPECT_NE(each.find(text), std::string::npos) << each << "\nlacks: " << text;
}

TEST(InputAgreement, EqualInputsMatch) {
  for (const auto policy : {AutoShardPolicy::kFile, AutoShardPolicy::kData, AutoShardPolicy::kHint,
                            AutoShardPolicy::kOff})
    expect_agreed(by(policy), by(policy));
}

TEST(InputAgreement, WorkersMustUseTheSamePolicy) {
  expect_refused(by(AutoShardPolicy::kFile), by(AutoShardPolicy::kData),
                 "worker 2 has another AutoShardPolicy than worker 0, data and not file");
  InputDescription from_function{.kind = BatchKind::kPerReplica};
  expect_refused(
      by(AutoShardPolicy::kData), from_function,
      "another kind of input than worker 0, distribute_from_function and not distribute");
  InputDescription each = from_function;
  each.replication = InputReplication::kPerReplica;
  expect_refused(from_function, each,
                 "another InputReplication than worker 0, kPerReplica and not kPerWorker");
}

TEST(InputAgreement, ShardedDatasetsMustBeTheSame) {
  for (const auto policy :
       {AutoShardPolicy::kFile, AutoShardPolicy::kData, AutoShardPolicy::kHint}) {
    const InputDescription own = by(policy);
    expect_refused(own, by(policy, {"numbers", "batch(5)"}),
                   "worker 2 has another step 2 of the dataset than worker 0, batch(5) and not "
                   "batch(4)");
    expect_refused(own, by(policy, {"numbers", "batch(4)", "prefetch"}),
                   "another step 3 of the dataset than worker 0, prefetch and not nothing");
    expect_refused(own, by(policy, {"numbers"}),
                   "another step 2 of the dataset than worker 0, nothing and not batch(4)");
  }
}

TEST(InputAgreement, ListsOfFilesMustBeTheSame) {
  InputDescription own = by(AutoShardPolicy::kFile);
  own.files = 17;
  expect_refused(by(AutoShardPolicy::kFile), own,
                 "worker 2 has another list of files than worker 0, 17 and not 0");
}

TEST(InputAgreement, EpochsMustBeEqualWhereOrderMatters) {
  for (const auto policy : {AutoShardPolicy::kData, AutoShardPolicy::kHint}) {
    InputDescription later = by(policy);
    later.epoch = 2;
    expect_refused(by(policy), later, "worker 2 has another epoch than worker 0, 2 and not 0");
  }
  for (const auto policy : {AutoShardPolicy::kFile, AutoShardPolicy::kOff}) {
    InputDescription later = by(policy);
    later.epoch = 2;
    expect_agreed(by(policy), later);
  }
}

TEST(InputAgreement, WithoutShardingDatasetsMayDifferButNotInLength) {
  InputDescription other = by(AutoShardPolicy::kOff, {"others", "batch(2)"});
  expect_agreed(by(AutoShardPolicy::kOff), other);
  other.cardinality = 4;
  expect_refused(by(AutoShardPolicy::kOff), other,
                 "worker 2 has another number of batches than worker 0, 4 and not 3");
}

TEST(InputAgreement, FunctionsMayMakeDifferentDatasets) {
  InputDescription one = by(AutoShardPolicy::kData);
  InputDescription other = by(AutoShardPolicy::kData, {"others"});
  one.kind = other.kind = BatchKind::kPerReplica;
  other.cardinality = 5;
  other.epoch = 1;
  expect_agreed(one, other);
}

}  // namespace
}  // namespace brigade::distribute
