#include "brigade/ps/server_placement.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "brigade/base/error.h"
#include "brigade/device/device_scope.h"

namespace brigade::ps {
namespace {

std::vector<int> servers_of(const std::vector<PlacedVariable>& placed) {
  std::vector<int> servers;
  for (const PlacedVariable& each : placed) servers.push_back(each.server);
  return servers;
}

const std::vector<VariableSize> kModel = {
    {"weights", 400}, {"bias", 4}, {"weights_1", 200}, {"bias_1", 4}, {"count", 8, false}};

TEST(ServerPlacement, RotatesInTheOrderOfCreation) {
  const auto placed = place_variables(kModel, 2);
  EXPECT_EQ(servers_of(placed), (std::vector{0, 1, 0, 1, 0}));
  EXPECT_EQ(placed[3].name, "bias_1");
  EXPECT_TRUE(placed[3].is_trainable);
  EXPECT_FALSE(placed[4].is_trainable);
  EXPECT_EQ(servers_of(place_variables(kModel, 1)), std::vector<int>(5, 0));
}

TEST(ServerPlacement, GreedyBalancesBytes) {
  EXPECT_EQ(servers_of(place_variables(kModel, 2, greedy_by_bytes)), (std::vector{0, 1, 1, 1, 1}));
}

TEST(ServerPlacement, EveryWorkerComesToTheSameAssignment) {
  const ServerPlacement random = [](int servers) { return device::random_strategy(servers, 5); };
  for (const ServerPlacement& placement :
       {ServerPlacement{}, ServerPlacement{greedy_by_bytes}, random})
    EXPECT_EQ(servers_of(place_variables(kModel, 3, placement)),
              servers_of(place_variables(kModel, 3, placement)));
}

TEST(ServerPlacement, WhatADeviceScopeHasChosenIsKept) {
  std::vector<VariableSize> sizes = kModel;
  sizes[0].server = 1;
  sizes[3].server = 1;
  EXPECT_EQ(servers_of(place_variables(sizes, 2)), (std::vector{1, 0, 1, 1, 0}))
      << "the others rotate";
}

TEST(ServerPlacement, ADeviceNamesTheServerByItsTask) {
  const ServerTasks tasks;
  EXPECT_EQ(requested_server("/job:ps/task:1", "w", 2, tasks), 1);
  EXPECT_EQ(requested_server("/job:ps/task:0/device:CPU:0", "w", 2, tasks), 0);
  for (const char* other : {"", "/job:ps", "/job:worker/task:1", "cpu:1", "/task:1"})
    EXPECT_EQ(requested_server(other, "w", 2, tasks), std::nullopt) << other;
  const ServerTasks sparse{.indices = {3, 7}};
  EXPECT_EQ(requested_server("/job:ps/task:7", "w", 2, sparse), 1);
  EXPECT_EQ(sparse.name(1), "/job:ps/task:7");
}

TEST(ServerPlacement, ATaskThatDoesNotExistIsRefusedOrLeftToTheStrategy) {
  EXPECT_EQ(requested_server("/job:ps/task:2", "w", 2, {}), std::nullopt);
  try {
    requested_server("/job:ps/task:2", "w", 2, {.missing = device::MissingDevice::kRefuse});
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    for (const char* part : {"'w'", "/job:ps/task:2", "/job:ps/task:0, /job:ps/task:1"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ServerPlacement, TheDeviceSetterOfAClusterRotatesOverItsServers) {
  const cluster::ClusterSpec cluster(std::map<std::string, std::vector<std::string>>{
      {"ps", {"127.0.0.1:1000", "127.0.0.1:1001"}}, {"worker", {"127.0.0.1:1002"}}});
  const auto scope = device::with_device(
      replica_device_setter(cluster, {.ps_tasks = 7}));  // as in TensorFlow, the cluster counts
  const auto device_of = [](const std::string& name) {
    return device::requested_device({.name = name, .kind = device::PlacedKind::kVariable});
  };
  EXPECT_EQ(device_of("v0"), "/job:ps/task:0");
  EXPECT_EQ(device_of("v1"), "/job:ps/task:1");
  EXPECT_EQ(device_of("v2"), "/job:ps/task:0");
  EXPECT_EQ(replica_device_setter(cluster, {.ps_device = "/job:other"}), nullptr);
}

TEST(ServerPlacement, RefusesServersThatDoNotExist) {
  const auto code = [](int servers, const ServerPlacement& placement) {
    try {
      place_variables(kModel, servers, placement);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code(0, {}), ErrorCode::kInvalidArgument);
  for (const int wrong : {-1, 2}) {
    const ServerPlacement bad = [wrong](int) {
      return [wrong](const device::PlacementRequest&) { return wrong; };
    };
    EXPECT_EQ(code(2, bad), ErrorCode::kOutOfRange);
  }
}

}  // namespace
}  // namespace brigade::ps
