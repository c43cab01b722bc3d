#include "brigade/ps/server_placement.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

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
