// Audits of gradients by another worker. The workers are threads.
#include "brigade/distribute/gradient_audit.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/nextafter.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand_like.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/input/labeled_example.h"
#include "brigade/input/tensor_slices.h"
#include "brigade/optim/adam.h"

namespace brigade::distribute {
namespace {

constexpr int kExamples = 60;
constexpr int kBatch = 20;
constexpr std::uint64_t kSeed = 5;

TEST(AuditOfStep, OnlyEveryNthStepHasOne) {
  const std::vector<int> replicas = {2, 2};
  for (std::uint64_t step = 0; step < 12; ++step)
    EXPECT_EQ(audit_of_step(step, 3, replicas).has_value(), step % 3 == 2) << step;
  EXPECT_FALSE(audit_of_step(2, 0, replicas));
}

TEST(AuditOfStep, AuditsEachReplicaOnceAndNeverByItsOwnWorker) {
  const std::vector<int> replicas = {3, 1, 2};
  for (std::uint64_t first = 0; first < 30; first += 6) {
    std::set<int> audited;
    for (std::uint64_t number = first; number < first + 6; ++number) {
      const AuditAssignment audit = *audit_of_step(number * 10 + 9, 10, replicas);
      audited.insert(audit.replica);
      EXPECT_EQ(audit.owner, audit.replica < 3 ? 0 : audit.replica < 4 ? 1 : 2);
      EXPECT_NE(audit.auditor, audit.owner);
      EXPECT_GE(audit.host, 0);
      EXPECT_LT(audit.host, replicas[static_cast<std::size_t>(audit.auditor)]);
    }
    EXPECT_EQ(audited.size(), 6U);
  }
}

TEST(AuditOfStep, EveryReplicaIsAuditedByEveryOtherWorkerOnEveryDevice) {
  const std::vector<int> replicas = {3, 1, 2};
  std::set<std::vector<int>> seen;
  for (std::uint64_t step = 0; step < 6 * 2 * 3; ++step) {
    const AuditAssignment audit = *audit_of_step(step, 1, replicas);
    seen.insert({audit.replica, audit.auditor, audit.host});
  }
  // Of worker 0's three replicas by 1 + 2, of worker 1's by 3 + 2, of worker 2's two by 3 + 1.
  EXPECT_EQ(seen.size(), 3U * 3 + 1 * 5 + 2 * 4);
}

/// Random numbers and statistics of each replica.
struct AuditedNet : torch::nn::Module {
  AuditedNet() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 5, 3)));
    norm = register_module("norm", torch::nn::BatchNorm2d(5));
    dropout = register_module("dropout", torch::nn::Dropout(0.3));
    dense = register_module("dense", torch::nn::Linear(5 * 6 * 6, 4));
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor features = norm->forward(conv->forward(images)).relu();
    // The moving statistics too: they must be those of the audited replica.
    const at::Tensor shifted = features + norm->running_mean.detach().clone().sum() * 0.01;
    return dense->forward(dropout->forward(shifted.flatten(1)));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear dense{nullptr};
};

struct AuditCase {
  std::vector<int> devices = {1, 1};
  int logical_replicas = 4;
  int audit_every = 1;
  int accumulate = 1;
  int epochs = 2;
  bool augments = false;
  /// Changes a replica's loss; by default nothing.
  std::function<at::Tensor(ReplicaContext&, const at::Tensor& loss)> change = {};
};

/// Ends when the data do; the weights and statistics to the bit.
std::string train(MultiWorkerMirroredStrategy& strategy, const AuditCase& audit_case) {
  const at::Tensor images = at::arange(kExamples * 64, at::kFloat).view({kExamples, 1, 8, 8}).sin();
  const at::Tensor labels = at::arange(kExamples, at::kLong).remainder(4);
  const auto data = input::from_tensor_slices(images, labels).shuffle(kExamples).batch(kBatch);
  const auto model = strategy.create<AuditedNet>();
  const auto adam = strategy.optimizer(model, optim::Adam{.learning_rate = 0.01},
                                       {.accumulate = audit_case.accumulate});
  auto distributed = strategy.distribute(data);
  if (audit_case.augments) {
    distributed = distributed.map_on_replica(
        [](input::LabeledBatch batch, ReplicaMapContext&) -> input::LabeledBatch {
          batch.features = batch.features + at::rand_like(batch.features) * 0.1;
          return batch;
        });
  }
  for (int epoch = 0; epoch < audit_case.epochs; ++epoch) {
    for (const auto& batch : distributed) {
      strategy.run(
          [&](ReplicaContext& context, const input::LabeledBatch& local) {
            at::Tensor loss = at::cross_entropy_loss(model->forward(local.features), local.labels);
            if (audit_case.change) loss = audit_case.change(context, loss);
            adam.minimize(loss);
            return loss.detach();
          },
          batch);
    }
  }
  std::string bits;
  for (const variables::Variable& variable : model.variables()) {
    const at::Tensor value = variable.read().contiguous();
    bits.append(static_cast<const char*>(value.const_data_ptr()), value.nbytes());
  }
  return bits;
}

/// [worker]: what `work` returns in it, or the error that it throws.
struct Outcome {
  std::string bits;
  std::optional<GradientMismatch> mismatch;
  std::optional<Error> error;
};

std::map<int, Outcome> run_audited(
    const AuditCase& audit_case,
    const std::function<std::string(MultiWorkerMirroredStrategy&, const AuditCase&)>& work =
        train) {
  std::mutex mutex;  // guards `outcomes`
  std::map<int, Outcome> outcomes;
  run_workers(
      audit_case.devices,
      [&](MultiWorkerMirroredStrategy& strategy) {
        Outcome outcome;
        try {
          outcome.bits = work(strategy, audit_case);
        } catch (const GradientMismatch& mismatch) {
          outcome.mismatch = mismatch;
        } catch (const Error& error) {
          outcome.error = error;
        }
        const std::lock_guard lock(mutex);
        outcomes.emplace(strategy.worker_index(), std::move(outcome));
      },
      {.transport = comm::Transport::kSharedMemory}, kSeed, audit_case.logical_replicas,
      audit_case.audit_every);
  return outcomes;
}

void expect_bits(const AuditCase& audit_case, const std::string& bits) {
  for (const auto& [worker, outcome] : run_audited(audit_case)) {
    EXPECT_FALSE(outcome.mismatch) << outcome.mismatch->what();
    EXPECT_FALSE(outcome.error) << outcome.error->what();
    EXPECT_TRUE(outcome.bits == bits) << "worker " << worker << " of " << audit_case.devices.size();
  }
}

TEST(GradientAudit, LeavesNoTraceWhereNothingIsWrong) {
  const std::string bits = run_audited({.audit_every = 0}).at(0).bits;
  ASSERT_FALSE(bits.empty());
  for (const std::vector<int>& devices :
       {std::vector{1, 1}, std::vector{2, 1}, std::vector{2, 2}, std::vector{1, 1, 1}}) {
    for (const int every : {1, 2}) expect_bits({.devices = devices, .audit_every = every}, bits);
  }
}

TEST(GradientAudit, LeavesNoTraceInMicroBatches) {
  const AuditCase plain{.audit_every = 0, .accumulate = 2};
  const std::string bits = run_audited(plain).at(0).bits;
  AuditCase audited = plain;
  audited.audit_every = 1;
  expect_bits(audited, bits);
}

TEST(GradientAudit, RepeatsRandomNumbersOfMapOnReplica) {
  const AuditCase plain{.audit_every = 0, .augments = true};
  const std::string bits = run_audited(plain).at(0).bits;
  EXPECT_TRUE(bits != run_audited({.audit_every = 0}).at(0).bits);
  AuditCase audited = plain;
  audited.audit_every = 1;
  expect_bits(audited, bits);
}

/// One more unit in the last place of one gradient of a replica, in one worker's computation of it.
auto wrong_in(int worker, int replica, std::uint64_t step) {
  return [=](ReplicaContext& context, const at::Tensor& loss) {
    const bool is_wrong = context.strategy().worker_index() == worker &&
                          context.replica_id() == replica && context.step() == step;
    if (!is_wrong) return loss;
    const at::Tensor changed = loss.clone();
    changed.register_hook([](const at::Tensor& gradient) {
      return at::nextafter(gradient,
                           at::full_like(gradient, std::numeric_limits<float>::infinity()));
    });
    return changed;
  };
}

void expect_found(const std::map<int, Outcome>& outcomes, std::uint64_t step, int replica) {
  for (const auto& [worker, outcome] : outcomes) {
    ASSERT_TRUE(outcome.mismatch) << worker
                                  << (outcome.error ? outcome.error->what() : " found nothing");
    EXPECT_EQ(outcome.mismatch->code(), ErrorCode::kDataLoss);
    EXPECT_EQ(outcome.mismatch->step(), step);
    EXPECT_EQ(outcome.mismatch->audit().replica, replica);
    const std::string text = outcome.mismatch->what();
    for (const int each : {outcome.mismatch->audit().owner, outcome.mismatch->audit().auditor})
      EXPECT_NE(text.find(base::str_cat("/job:worker/task:", each, " on host ")), std::string::npos)
          << text;
    EXPECT_NE(text.find(outcome.mismatch->variable()), std::string::npos) << text;
    EXPECT_NE(text.find(base::str_cat("step ", step)), std::string::npos) << text;
  }
}

TEST(GradientAudit, FindsAWrongOwner) {
  for (const std::vector<int>& devices : {std::vector{1, 1}, std::vector{2, 2}}) {
    // Replicas 2 and 3 are worker 1's; step 3 audits replica 3.
    expect_found(run_audited({.devices = devices, .change = wrong_in(1, 3, 3)}), 3, 3);
  }
}

TEST(GradientAudit, FindsAWrongAuditor) {
  for (const std::vector<int>& devices : {std::vector{1, 1}, std::vector{2, 2}})
    expect_found(run_audited({.devices = devices, .change = wrong_in(0, 3, 3)}), 3, 3);
}

TEST(GradientAudit, AllWorkersNameTheTwo) {
  // Replicas 2 and 3 are worker 1's, which worker 2 audits first.
  const auto outcomes = run_audited({.devices = {1, 1, 1}, .change = wrong_in(1, 2, 2)});
  EXPECT_EQ(outcomes.size(), 3U);
  expect_found(outcomes, 2, 2);
}

TEST(GradientAudit, FindsNothingInStepsWithoutOne) {
  // Step 2 audits replica 2, and of replica 3 step 3 is audited.
  for (const auto& [worker, outcome] : run_audited({.change = wrong_in(1, 3, 2)})) {
    EXPECT_FALSE(outcome.mismatch) << worker;
    EXPECT_FALSE(outcome.error) << worker;
  }
}

TEST(GradientAudit, RefusesCollectivesInTheStepAndNamesThem) {
  const auto with_sum = [](ReplicaContext& context, const at::Tensor& loss) {
    context.all_reduce(comm::ReduceOp::kSum, loss.detach());
    return loss;
  };
  for (const auto& [worker, outcome] : run_audited({.audit_every = 100, .change = with_sum})) {
    ASSERT_TRUE(outcome.error) << worker;
    EXPECT_EQ(outcome.error->code(), ErrorCode::kFailedPrecondition);
    EXPECT_TRUE(mentions(*outcome.error, "all_reduce(sum)")) << outcome.error->what();
  }
}

TEST(GradientAudit, RefusesBatchesThatItCannotMakeAgain) {
  const auto train_one = [](MultiWorkerMirroredStrategy& strategy, const AuditCase&) {
    const auto model = strategy.create<AuditedNet>();
    const auto adam = strategy.optimizer(model, optim::Adam{});
    const auto batch = strategy.split_batch(at::ones({8, 1, 8, 8}));
    strategy.run([&](const at::Tensor& own) { adam.minimize(model->forward(own).sum(1)); }, batch);
    return std::string();
  };
  for (const auto& [worker, outcome] : run_audited({}, train_one)) {
    ASSERT_TRUE(outcome.error) << worker;
    EXPECT_EQ(outcome.error->code(), ErrorCode::kFailedPrecondition);
    EXPECT_TRUE(mentions(*outcome.error, "Strategy::distribute")) << outcome.error->what();
  }
}

TEST(GradientAudit, LeavesStepsWithoutAnUpdateAlone) {
  const auto evaluate = [](MultiWorkerMirroredStrategy& strategy, const AuditCase&) {
    const auto batch = strategy.split_batch(at::ones({8, 2}));
    for (int step = 0; step < 3; ++step) {
      strategy.run(
          [](ReplicaContext& context, const at::Tensor& own) {
            context.all_reduce(comm::ReduceOp::kSum, own.sum());
          },
          batch);
    }
    return std::string("done");
  };
  for (const auto& [worker, outcome] : run_audited({}, evaluate)) EXPECT_EQ(outcome.bits, "done");
}

Error refusal(MultiWorkerMirroredOptions options) {
  comm::let_ranks_be_threads();
  const auto memberships = cluster::testing::make_in_memory_memberships(1);
  return error_from([&] { MultiWorkerMirroredStrategy(memberships.front(), options); });
}

TEST(GradientAuditOptions, AreRefusedWhereNothingCanBeCompared) {
  MultiWorkerMirroredOptions options = worker_cpus(1);
  options.logical_replicas = 4;
  options.audit_every = 10;
  EXPECT_EQ(refusal(options).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(refusal(options), "there is one worker")) << refusal(options).what();
  options.logical_replicas = 0;
  EXPECT_EQ(refusal(options).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(refusal(options), "without logical_replicas")) << refusal(options).what();
  options.audit_every = -1;
  EXPECT_EQ(refusal(options).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(refusal(options), "audit_every is -1")) << refusal(options).what();
}

}  // namespace
}  // namespace brigade::distribute
