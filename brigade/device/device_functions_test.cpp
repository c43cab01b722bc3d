#include "brigade/device/device_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlacementRequest variable(std::string name, std::optional<std::int64_t> bytes = std::nullopt) {
  return {.name = std::move(name), .kind = PlacedKind::kVariable, .bytes = bytes};
}

PlacementRequest layer(std::string name) {
  return {.name = std::move(name)};
}

// The placements of three variables and then a layer.
std::vector<std::string> placed() {
  std::vector<std::string> devices;
  for (const char* name : {"v0", "v1", "v2"}) devices.push_back(requested_device(variable(name)));
  devices.push_back(requested_device(layer("c")));
  return devices;
}

std::vector<std::string> placement_inside(const ReplicaDeviceSetterOptions& options,
                                          const std::string& inside) {
  const auto setter = with_device(replica_device_setter(options));
  const auto scope = with_device(inside);
  return placed();
}

template <class Callable>
void expect_error(ErrorCode code, const std::string& part, Callable callable) {
  try {
    callable();
    ADD_FAILURE() << "nothing thrown; expected " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

TEST(AssignToDevice, PutsVariablesOnTheControllerAndTheRestOnTheDevice) {
  const auto scope = with_device(assign_to_device("/gpu:1", "/cpu:0"));
  const auto inner = with_device("/gpu:3");
  EXPECT_EQ(requested_device(variable("v")), "/device:CPU:0");
  EXPECT_EQ(requested_device(layer("c")), "/device:GPU:1");
}

TEST(AssignToDevice, WithoutAControllerOuterScopesPlaceVariables) {
  const auto outer = with_device("/cpu:1");
  const auto scope = with_device(assign_to_device("/gpu:1"));
  EXPECT_EQ(requested_device(variable("v")), "/device:CPU:1");
  EXPECT_EQ(requested_device(layer("c")), "/device:GPU:1");
}

TEST(AssignToDevice, RefusesMalformedNames) {
  expect_error(ErrorCode::kInvalidArgument, "tpu:0", [] { assign_to_device("tpu:0"); });
  expect_error(ErrorCode::kInvalidArgument, "/job:", [] { assign_to_device("cpu:0", "/job:"); });
}

TEST(RoundRobinStrategy, CyclesInOrder) {
  const PlacementStrategy strategy = round_robin_strategy(3);
  std::vector<int> tasks;
  for (int i = 0; i < 7; ++i) tasks.push_back(strategy(variable("v")));
  EXPECT_THAT(tasks, ElementsAre(0, 1, 2, 0, 1, 2, 0));
}

TEST(RoundRobinStrategy, CopiesShareState) {
  const PlacementStrategy strategy = round_robin_strategy(2);
  const PlacementStrategy copy = strategy;
  EXPECT_EQ(strategy(variable("a")), 0);
  EXPECT_EQ(copy(variable("b")), 1);
  EXPECT_EQ(strategy(variable("c")), 0);
}

TEST(GreedyStrategy, TakesTheLeastLoadAndTheLowestIndexAmongEquals) {
  const PlacementStrategy strategy = greedy_load_balancing_strategy(2, byte_size_load);
  std::vector<int> tasks;
  for (const std::int64_t bytes : {100, 30, 30, 30, 30, 1, 0}) {
    tasks.push_back(strategy(variable("v", bytes)));
  }
  // loads: 100|0  100|30  100|60  100|90  100|120  101|120
  EXPECT_THAT(tasks, ElementsAre(0, 1, 1, 1, 1, 0, 0));
}

TEST(GreedyStrategy, IsOffByNoMoreThanTheLargestVariable) {
  constexpr int kTasks = 4;
  const PlacementStrategy strategy = greedy_load_balancing_strategy(kTasks, byte_size_load);
  std::vector<std::int64_t> loads(kTasks, 0);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t bytes = (i * 7919) % 1000;
    loads.at(static_cast<std::size_t>(strategy(variable("v", bytes)))) += bytes;
  }
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  EXPECT_LE(*most - *least, 999);
}

TEST(ByteSizeLoad, RefusesUnknownSizes) {
  EXPECT_EQ(byte_size_load(variable("v", 12)), 12);
  expect_error(ErrorCode::kInvalidArgument, "conv1/weights",
               [] { byte_size_load(variable("conv1/weights")); });
}

TEST(RandomStrategy, DependsOnSeedAndNameAlone) {
  const PlacementStrategy forwards = random_strategy(4, 7);
  const PlacementStrategy backwards = random_strategy(4, 7);
  const PlacementStrategy other_seed = random_strategy(4, 8);
  std::map<std::string, int> tasks;
  for (int i = 0; i < 64; ++i) {
    const std::string name = base::str_cat("v", i);
    tasks[name] = forwards(variable(name));
  }
  std::set<int> used;
  int moved = 0;
  for (auto it = tasks.rbegin(); it != tasks.rend(); ++it) {
    EXPECT_EQ(backwards(variable(it->first)), it->second);
    used.insert(it->second);
    moved += other_seed(variable(it->first)) != it->second ? 1 : 0;
  }
  EXPECT_THAT(used, ElementsAre(0, 1, 2, 3));
  EXPECT_GT(moved, 16);
}

TEST(Strategies, NeedATask) {
  for (const int tasks : {0, -1}) {
    const std::string text = base::str_cat("is ", tasks);
    expect_error(ErrorCode::kInvalidArgument, text, [&] { round_robin_strategy(tasks); });
    expect_error(ErrorCode::kInvalidArgument, text, [&] { random_strategy(tasks); });
    expect_error(ErrorCode::kInvalidArgument, text,
                 [&] { greedy_load_balancing_strategy(tasks, byte_size_load); });
  }
  expect_error(ErrorCode::kInvalidArgument, "load",
               [] { greedy_load_balancing_strategy(1, nullptr); });
}

// Expected values are those of tf.compat.v1.train.replica_device_setter in the same scopes (2.21).

TEST(ReplicaDeviceSetter, CyclesThroughTheParameterServers) {
  EXPECT_THAT(placement_inside({.ps_tasks = 2}, ""),
              ElementsAre("/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0", "/job:worker"));
}

TEST(ReplicaDeviceSetter, MergesWithTheScopesInside) {
  EXPECT_THAT(placement_inside({.ps_tasks = 2}, "/gpu:0"),
              ElementsAre("/job:ps/task:0/device:GPU:0", "/job:ps/task:1/device:GPU:0",
                          "/job:ps/task:0/device:GPU:0", "/job:worker/device:GPU:0"));
  EXPECT_THAT(placement_inside({.ps_tasks = 2, .ps_device = "/job:ps/cpu:0"}, "/gpu:0"),
              ElementsAre("/job:ps/task:0/device:GPU:0", "/job:ps/task:1/device:GPU:0",
                          "/job:ps/task:0/device:GPU:0", "/job:worker/device:GPU:0"));
  EXPECT_THAT(
      placement_inside({.ps_tasks = 2, .worker_device = "/job:worker/task:1/gpu:0"}, "/cpu:0"),
      ElementsAre("/job:ps/task:0/device:CPU:0", "/job:ps/task:1/device:CPU:0",
                  "/job:ps/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0"));
  EXPECT_THAT(
      placement_inside({.ps_tasks = 2}, "/task:9"),
      ElementsAre("/job:ps/task:9", "/job:ps/task:9", "/job:ps/task:9", "/job:worker/task:9"));
}

TEST(ReplicaDeviceSetter, MergesWithTheScopesOutside) {
  const auto outer = with_device("/job:o/task:7/gpu:0");
  const auto setter = with_device(replica_device_setter({.ps_tasks = 2}));
  EXPECT_THAT(placed(),
              ElementsAre("/job:ps/task:0/device:GPU:0", "/job:ps/task:1/device:GPU:0",
                          "/job:ps/task:0/device:GPU:0", "/job:worker/task:7/device:GPU:0"));
}

TEST(ReplicaDeviceSetter, LeavesVariablesOfAnotherJobWhereTheyAre) {
  EXPECT_THAT(placement_inside({.ps_tasks = 2}, "/job:x/gpu:0"),
              ElementsAre("/job:x/device:GPU:0", "/job:x/device:GPU:0", "/job:x/device:GPU:0",
                          "/job:x/device:GPU:0"));
  EXPECT_THAT(placement_inside({.ps_tasks = 2}, "/job:ps"),
              ElementsAre("/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0", "/job:ps"));
}

TEST(ReplicaDeviceSetter, VariablesOfAnotherJobDoNotCount) {
  const auto setter = with_device(replica_device_setter({.ps_tasks = 2}));
  EXPECT_EQ(requested_device(variable("a")), "/job:ps/task:0");
  {
    const auto elsewhere = with_device("/job:x");
    EXPECT_EQ(requested_device(variable("b")), "/job:x");
  }
  EXPECT_EQ(requested_device(layer("c")), "/job:worker");
  EXPECT_EQ(requested_device(variable("d")), "/job:ps/task:1");
}

TEST(ReplicaDeviceSetter, KeepsInnerChoicesWithoutMerging) {
  const ReplicaDeviceSetterOptions options{.ps_tasks = 2, .merge_devices = false};
  EXPECT_THAT(placement_inside(options, "/gpu:0"),
              ElementsAre("/device:GPU:0", "/device:GPU:0", "/device:GPU:0", "/device:GPU:0"));
  EXPECT_THAT(placement_inside(options, ""),
              ElementsAre("/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0", "/job:worker"));
}

TEST(ReplicaDeviceSetter, OverwritesTheTaskOfThePsDevice) {
  EXPECT_THAT(placement_inside({.ps_tasks = 2, .ps_device = "/job:ps/task:5/cpu:0"}, ""),
              ElementsAre("/job:ps/task:0/device:CPU:0", "/job:ps/task:1/device:CPU:0",
                          "/job:ps/task:0/device:CPU:0", "/job:worker"));
}

TEST(ReplicaDeviceSetter, WithoutAPsDevicePlacesVariablesOnTheWorker) {
  EXPECT_THAT(placement_inside({.ps_tasks = 2, .ps_device = ""}, "/gpu:0"),
              ElementsAre("/job:worker/device:GPU:0", "/job:worker/device:GPU:0",
                          "/job:worker/device:GPU:0", "/job:worker/device:GPU:0"));
  EXPECT_THAT(placement_inside({.ps_tasks = 2, .worker_device = ""}, ""),
              ElementsAre("/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:0", ""));
}

TEST(ReplicaDeviceSetter, ChangesNothingWithoutParameterServers) {
  EXPECT_FALSE(replica_device_setter({}));
  EXPECT_THAT(placement_inside({}, "/gpu:0"),
              ElementsAre("/device:GPU:0", "/device:GPU:0", "/device:GPU:0", "/device:GPU:0"));
}

TEST(ReplicaDeviceSetter, FollowsItsStrategy) {
  const auto setter = with_device(replica_device_setter(
      {.ps_tasks = 2, .ps_strategy = greedy_load_balancing_strategy(2, byte_size_load)}));
  EXPECT_EQ(requested_device(variable("a", 100)), "/job:ps/task:0");
  EXPECT_EQ(requested_device(variable("b", 10)), "/job:ps/task:1");
  EXPECT_EQ(requested_device(variable("c", 10)), "/job:ps/task:1");
}

TEST(ReplicaDeviceSetter, RefusesTasksThatDoNotExist) {
  for (const int task : {2, -1}) {
    const auto setter = with_device(replica_device_setter(
        {.ps_tasks = 2, .ps_strategy = [task](const PlacementRequest&) { return task; }}));
    expect_error(ErrorCode::kOutOfRange,
                 base::str_cat("task ", task, " for variable conv1/weights"),
                 [] { requested_device(variable("conv1/weights")); });
  }
}

TEST(ReplicaDeviceSetter, RefusesOptionsThatCannotWork) {
  expect_error(ErrorCode::kInvalidArgument, "-1", [] { replica_device_setter({.ps_tasks = -1}); });
  expect_error(ErrorCode::kInvalidArgument, "/ps:0",
               [] { replica_device_setter({.ps_tasks = 1, .ps_device = "/ps:0"}); });
  expect_error(ErrorCode::kInvalidArgument, "worker",
               [] { replica_device_setter({.ps_tasks = 1, .worker_device = "worker"}); });
}

// A strategy that is not thread-safe: the setter must serialize the calls.
TEST(ReplicaDeviceSetter, ThreadsShareState) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  int calls = 0;
  std::vector<int> counts(2, 0);
  const DeviceFunction function =
      replica_device_setter({.ps_tasks = 2, .ps_strategy = [&](const PlacementRequest&) {
                               const int task = calls++ % 2;
                               ++counts[static_cast<std::size_t>(task)];
                               return task;
                             }});
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([copy = function] {
      for (int k = 0; k < kEach; ++k) copy(variable("v"));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(calls, kThreads * kEach);
  EXPECT_THAT(counts, ElementsAre(kThreads * kEach / 2, kThreads * kEach / 2));
}

}  // namespace
}  // namespace brigade::device
