#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/distribute/strategies/mirrored_strategy.h"
#include "brigade/optim/sgd.h"
#include "brigade/ps/testing/job_of_threads.h"

/// Workers with several devices: synchronous within a worker, servers across workers.
namespace brigade::ps {
namespace {

using distribute::cpus;
using testing::expect_equal_bits;
using testing::JobOfThreads;
using testing::kExamples;
using testing::kFeatures;
using testing::Plan;
using testing::SmallNet;
using testing::Weights;

constexpr UpdateMode kAllModes[] = {UpdateMode::kAsync, UpdateMode::kBounded, UpdateMode::kSync};

ParameterServerOptions two_replicas(UpdateMode mode) {
  return {.devices = cpus(2).devices, .mode = mode};
}

/// Replicas divide each batch between them, so that any number of them has the same batches.
Weights trained_on_batches(distribute::Strategy& strategy, const Plan& plan) {
  const auto model = strategy.create<SmallNet>(plan.hidden);
  const auto optimizer = strategy.make_optimizer(model.variables(), plan.rule);
  const at::Tensor target = testing::waves(kFeatures, 16, 0.5).mul(0.5);
  for (std::int64_t step = 0; step < plan.steps; ++step) {
    const at::Tensor batch =
        testing::waves(2 * kExamples, kFeatures, 1.7 * static_cast<double>(step));
    strategy.run(
        [&](const at::Tensor& x) {
          optimizer.minimize((model.local().forward(x) - x.mm(target)).square().mean(1));
        },
        strategy.split_batch(batch));
  }
  return testing::weights_of(model.variables());
}

TEST(LocalReplicas, GiveWhatOneReplicaGivesInEachMode) {
  // Sums of both halves are added in another order than the examples of one batch.
  constexpr double kTolerance = 1e-5;
  const Plan plan{.rule = optim::Sgd{.learning_rate = 0.05, .momentum = 0.9}.rule(), .hidden = 16};
  distribute::OneDeviceStrategy one("cpu:0");
  const Weights expected = trained_on_batches(one, plan);
  for (const UpdateMode mode : kAllModes) {
    JobOfThreads job(2, 1);
    const auto strategy = job.join(0, two_replicas(mode));
    ASSERT_EQ(strategy->num_replicas_in_sync(), 2);
    const Weights weights = trained_on_batches(*strategy, plan);
    EXPECT_EQ(job.step(), plan.steps) << "the replicas push once for all";
    for (const auto& [name, value] : expected)
      EXPECT_TRUE(weights.at(name).allclose(value, kTolerance, kTolerance))
          << name << " in mode " << static_cast<int>(mode);
  }
}

TEST(LocalReplicas, GiveTheBitsOfMirroredInEachMode) {
  const Plan plan{.hidden = 16};
  distribute::MirroredStrategy mirrored(cpus(2));
  const Weights expected = trained_by(mirrored, plan);
  for (const UpdateMode mode : kAllModes) {
    JobOfThreads job(2, 1);
    const auto strategy = job.join(0, two_replicas(mode));
    expect_equal_bits(trained_by(*strategy, plan), expected,
                      base::str_cat("mode ", static_cast<int>(mode)));
  }
}

TEST(LocalReplicas, OfSynchronousWorkersGiveTheBitsOfMultiWorkerMirrored) {
  const Plan plan{.hidden = 16};
  const Weights expected = testing::on_mirrored_workers(2, plan, /*replicas=*/2);
  for (const int servers : {1, 2}) {
    expect_equal_bits(testing::trained_in_sync(servers, 2, plan, two_replicas(UpdateMode::kSync)),
                      expected, base::str_cat(servers, " servers"));
  }
}

TEST(LocalReplicas, OfAsynchronousWorkersCountOneUpdateForAllOfAWorker) {
  for (const UpdateMode mode : {UpdateMode::kAsync, UpdateMode::kBounded}) {
    const Plan plan{.hidden = 16};
    JobOfThreads job(2, 2);
    job.run(two_replicas(mode),
            [&](ParameterServerStrategy& strategy) { trained_by(strategy, plan); });
    EXPECT_EQ(job.step(), 2 * plan.steps);
  }
}

}  // namespace
}  // namespace brigade::ps
