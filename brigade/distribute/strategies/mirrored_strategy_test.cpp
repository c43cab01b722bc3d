#include "brigade/distribute/strategies/mirrored_strategy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "brigade/base/strings.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/machine/topology.h"

namespace brigade::distribute {
namespace {

TEST(MirroredStrategy, HasAReplicaOnEachDevice) {
  MirroredStrategy strategy(cpus(4, 7));
  EXPECT_EQ(strategy.name(), "mirrored");
  EXPECT_EQ(strategy.num_replicas_in_sync(), 4);
  EXPECT_EQ(strategy.devices().size(), 4u);
  EXPECT_EQ(strategy.seed(), 7u);
}

TEST(MirroredStrategy, ByDefaultTakesEveryGpuOrEveryCore) {
  const auto gpus = device::available_gpus().size();
  const auto cores = static_cast<std::size_t>(device::discover_hardware().topology.usable_cores());
  EXPECT_EQ(MirroredStrategy().devices().size(), gpus > 0 ? gpus : cores);
}

TEST(MirroredStrategy, RefusesInvalidDevices) {
  EXPECT_EQ(error_from([] {
              MirroredStrategy({"cpu:0", "/device:CPU:0"});
            }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_from([] { MirroredStrategy({"gpu:99"}); }).code(), ErrorCode::kNotFound);
  const int cores = device::discover_hardware().topology.usable_cores();
  EXPECT_EQ(error_from([&] {
              MirroredStrategy(std::vector<std::string>{"cpu:0", base::str_cat("cpu:", cores + 1)});
            }).code(),
            ErrorCode::kInvalidArgument);
}

TEST(MirroredStrategy, MoreReplicasThanCoresTrain) {
  MirroredOptions many = cpus(device::discover_hardware().topology.usable_cores() + 1);
  many.allow_oversubscription = false;
  MirroredStrategy strategy(many);
  std::atomic<int> calls = 0;
  strategy.run([&](ReplicaContext&) { ++calls; });
  EXPECT_EQ(calls, strategy.num_replicas_in_sync());
}

TEST(MirroredStrategy, AWaitTimesOutAndNamesTheMissingReplica) {
  MirroredOptions hasty = cpus(2);
  hasty.timeout = std::chrono::milliseconds(30);
  MirroredStrategy strategy(hasty);
  std::atomic<bool> given_up = false;
  const Error error = error_from([&] {
    strategy.run([&](ReplicaContext& context) {
      if (context.replica_id() == 1) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!given_up && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        return;
      }
      try {
        context.barrier();
      } catch (const Error&) {
        given_up = true;
        throw;
      }
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(mentions(error, "for replica 1,")) << error.what();
  EXPECT_NO_THROW(strategy.run([](ReplicaContext&) {}));
}

TEST(MirroredStrategy, TakesOptionsInBracesAndListsOfNames) {
  EXPECT_EQ(MirroredStrategy({.devices = {"cpu:0"}}).devices().size(), 1u);
  EXPECT_EQ(MirroredStrategy({.devices = {"cpu:0"}, .seed = 5}).seed(), 5u);
  EXPECT_EQ(MirroredStrategy({.seed = 5}).seed(), 5u);
  EXPECT_EQ(MirroredStrategy({"cpu:0"}).devices().size(), 1u);
  const std::vector<std::string> names = {"cpu:0"};
  EXPECT_EQ(MirroredStrategy(names).devices().size(), 1u);
}

}  // namespace
}  // namespace brigade::distribute
