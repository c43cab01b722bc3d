#include "brigade/distribute/strategies/one_device_strategy.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <thread>

#include "brigade/distribute/testing/fixtures.h"

namespace brigade::distribute {
namespace {

TEST(OneDeviceStrategy, IsOneReplicaOnTheCallersThread) {
  OneDeviceStrategy strategy("cpu:0");
  EXPECT_EQ(strategy.name(), "one_device");
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  const auto thread =
      strategy.run([](ReplicaContext&) { return std::this_thread::get_id(); }).values();
  EXPECT_EQ(thread, std::vector<std::thread::id>({std::this_thread::get_id()}));
}

TEST(OneDeviceStrategy, HasItsNumberOfThreadsWhileItRuns) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  OneDeviceStrategy strategy(OneDeviceOptions{.device = "cpu:0", .threads_per_replica = 1});
  EXPECT_EQ(strategy.run([](ReplicaContext&) { return at::get_num_threads(); })[0], 1);
  EXPECT_EQ(at::get_num_threads(), 2);
  at::set_num_threads(before);
}

TEST(OneDeviceStrategy, CollectivesOfOneAreNoOps) {
  OneDeviceStrategy strategy("cpu:0");
  strategy.run([](ReplicaContext& context) {
    const at::Tensor x = at::full({1}, 2.0);
    EXPECT_TRUE(context.all_reduce(comm::ReduceOp::kSum, x).equal(x));
    EXPECT_TRUE(context.all_gather(x, 0).equal(x));
    context.barrier();
  });
}

TEST(OneDeviceStrategy, RefusesDevicesThatDoNotExist) {
  EXPECT_EQ(error_from([] { OneDeviceStrategy("gpu:99"); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(error_from([] { OneDeviceStrategy("toaster:0"); }).code(), ErrorCode::kInvalidArgument);
}

TEST(OneDeviceStrategy, TakesOptionsInBracesAndNamesOfAnyString) {
  EXPECT_EQ(OneDeviceStrategy({.device = "cpu:0", .threads_per_replica = 1}).devices()[0].threads,
            1);
  EXPECT_EQ(OneDeviceStrategy({.device = "cpu:0"}).devices().size(), 1u);
  EXPECT_EQ(OneDeviceStrategy({.seed = 5}).seed(), 5u);
  EXPECT_EQ(OneDeviceStrategy(std::string("cpu:0")).devices().size(), 1u);
}

}  // namespace
}  // namespace brigade::distribute
