#include "brigade/distribute/input/input_coordinator.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "brigade/comm/local/local_group.h"
#include "brigade/comm/testing/process_threads.h"
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

/// The steps of each of several workers, which have their own data: what they have for each.
using WorkerSteps = std::vector<std::vector<WorkerStep>>;

constexpr WorkerStep kEnd{.state = WorkerStep::State::kHasEnded};
constexpr WorkerStep kBroken{.state = WorkerStep::State::kFailed};
constexpr WorkerStep with(std::int64_t examples) {
  return {.state = WorkerStep::State::kHasBatch, .examples = examples};
}

/// One worker in a test of what is agreed in advance: a step is `take`, and `compute` if that says
/// so.
struct WorkerInAdvance {
  comm::ProcessCommunicator& workers;
  const std::vector<WorkerStep>& steps;
  InputCoordinator coordinator =
      InputCoordinator({.replicas = {},
                        .num_workers = workers.world_size(),
                        .worker = workers.rank(),
                        .workers = {std::shared_ptr<void>(), &workers},
                        .progress = {std::shared_ptr<void>(), &workers.progress()}},
                       InputSource::kOwn);
  std::size_t next = 0;
  std::int64_t calls = 0;  // of the last `take` and `compute`
  bool knows_next = true;

  InputCoordinator::Agreement take() {
    const WorkerStep own = steps[next++];
    const std::int64_t before = workers.traffic().collectives;
    InputCoordinator::Agreement agreed;
    if (own.state == WorkerStep::State::kFailed) {
      coordinator.fail("the disk is damaged");
    } else {
      agreed = coordinator.agree(own, [this]() -> std::optional<WorkerStep> {
        return knows_next ? std::optional(steps.at(next)) : std::nullopt;
      });
    }
    calls = workers.traffic().collectives - before;
    return agreed;
  }
  /// The step's only call is that for its gradients.
  void compute() {
    const std::int64_t before = workers.traffic().collectives;
    comm::StepProgress& progress = workers.progress();
    progress.begin_step();
    try {
      workers.barrier();
    } catch (...) {
      progress.end_step();
      throw;
    }
    progress.end_step();
    calls += workers.traffic().collectives - before;
  }
};

void run_in_advance(const WorkerSteps& steps, const std::function<void(WorkerInAdvance&)>& body) {
  comm::run_processes_successfully(
      static_cast<int>(steps.size()), {.timeout = std::chrono::seconds(60)},
      [&](comm::ProcessCommunicator& workers) {
        WorkerInAdvance worker{.workers = workers,
                               .steps = steps[static_cast<std::size_t>(workers.rank())]};
        body(worker);
      });
}

TEST(InputInAdvance, AStepHasOneCallAlsoWhereDataEndsUnevenly) {
  const WorkerSteps steps = {{with(4), with(4), with(1), kEnd, kEnd},
                             {with(3), kEnd, kEnd, kEnd, kEnd},
                             {with(0), with(2), with(2), with(2), kEnd}};
  run_in_advance(steps, [](WorkerInAdvance& worker) {
    std::vector<std::int64_t> examples;
    std::vector<std::int64_t> calls;
    while (true) {
      const auto agreed = worker.take();
      if (agreed.any_has_data) worker.compute();
      calls.push_back(worker.calls);
      if (!agreed.any_has_data) break;
      examples.push_back(agreed.examples);
    }
    EXPECT_EQ(examples, (std::vector<std::int64_t>{7, 6, 3, 2}));
    EXPECT_EQ(calls, (std::vector<std::int64_t>{2, 1, 1, 1, 0})) << "the end needs none";
  });
}

TEST(InputInAdvance, IfOneWorkerDoesNotKnowAllAskWhenTheyMust) {
  const std::vector<WorkerStep> six(6, with(2));
  run_in_advance({six, six, six}, [](WorkerInAdvance& worker) {
    std::vector<std::int64_t> calls;
    for (int step = 0; step < 5; ++step) {
      worker.knows_next = step != 1 || worker.workers.rank() != 1;
      EXPECT_EQ(worker.take().examples, 6);
      worker.compute();
      calls.push_back(worker.calls);
    }
    EXPECT_EQ(calls, (std::vector<std::int64_t>{2, 1, 2, 1, 1}));
  });
}

TEST(InputInAdvance, StepsWithoutOtherCallsAskInEach) {
  const std::vector<WorkerStep> three(4, with(2));
  run_in_advance({three, three}, [](WorkerInAdvance& worker) {
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(worker.take().examples, 4);
      EXPECT_EQ(worker.calls, 1);
    }
  });
}

TEST(InputInAdvance, AFailureThatIsKnownIsThrownByAllWhereTheStepIs) {
  const WorkerSteps steps = {{with(2), with(2), with(2), kEnd}, {with(2), kBroken, with(2), kEnd}};
  run_in_advance(steps, [](WorkerInAdvance& worker) {
    worker.take();
    worker.compute();
    if (worker.workers.rank() == 1) {
      worker.take();
    } else {
      try {
        worker.take();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const comm::StepAbandoned& error) {
        EXPECT_EQ(error.failed_ranks(), std::vector{1});
        EXPECT_EQ(error.step(), 1u);
        EXPECT_TRUE(mentions(error, "worker 1: the disk is damaged")) << error.what();
      }
    }
    EXPECT_EQ(worker.take().examples, 4);
    worker.compute();
    EXPECT_FALSE(worker.take().any_has_data);
  });
}

// Such as one for which memory ran out when it took a batch that was there.
TEST(InputInAdvance, AFailureThatNobodyKnewOfEndsTheStepWhereItsGradientsAreMissed) {
  const std::vector<WorkerStep> five(5, with(2));
  run_in_advance({five, five}, [](WorkerInAdvance& worker) {
    worker.take();
    worker.compute();
    if (worker.workers.rank() == 1) {
      ++worker.next;
      worker.coordinator.fail("out of memory");
    } else {
      EXPECT_EQ(worker.take().examples, 4);
      const Error error = error_from([&] { worker.compute(); });
      EXPECT_EQ(error.code(), ErrorCode::kAborted);
      EXPECT_TRUE(mentions(error, "out of memory")) << error.what();
    }
    EXPECT_EQ(worker.workers.progress().step(), 2u);
    EXPECT_EQ(worker.take().examples, 4);
    worker.compute();
    EXPECT_EQ(worker.calls, 2);
    EXPECT_EQ(worker.take().examples, 4);
    EXPECT_EQ(worker.calls, 0) << "the workers are together again";
  });
}

TEST(InputInAdvance, IsForgottenAtAnotherPosition) {
  const std::vector<WorkerStep> three(4, with(2));
  run_in_advance({three, three}, [](WorkerInAdvance& worker) {
    worker.take();
    worker.compute();
    worker.coordinator.forget_next();
    worker.take();
    EXPECT_EQ(worker.calls, 1);
  });
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
