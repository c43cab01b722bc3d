#include "brigade/ps/client/server_statuses.h"

#include <gtest/gtest.h>

#include <string>

#include "brigade/base/testing/error_code.h"

namespace brigade::ps {
namespace {

using base::testing::message_of;

constexpr ServerStatus kEmptyServer = {};
constexpr ServerStatus kCreatedServer = {.is_created = true};
constexpr ServerStatus kReadyServer = {.is_created = true, .is_ready = true};

ServerStatuses statuses_of(const ServerStatus& first, const ServerStatus& second) {
  return {{first, second}, {"server A", "server B"}};
}

TEST(ServerStatuses, AJobIsInProgressIfAnyServerIsReady) {
  EXPECT_FALSE(statuses_of(kEmptyServer, kCreatedServer).is_any_ready());
  EXPECT_TRUE(statuses_of(kCreatedServer, kReadyServer).is_any_ready());
  EXPECT_EQ(statuses_of(kCreatedServer, kEmptyServer).not_ready(), "server A, server B");
  EXPECT_EQ(statuses_of(kReadyServer, kCreatedServer).not_ready(), "server B");
  EXPECT_EQ(statuses_of(kReadyServer, kReadyServer).not_ready(), "");
}

TEST(ServerStatuses, AServerThatLostItsVariablesIsNamed) {
  for (const auto& whole :
       {statuses_of(kEmptyServer, kEmptyServer), statuses_of(kEmptyServer, kCreatedServer),
        statuses_of(kCreatedServer, kReadyServer)}) {
    EXPECT_FALSE(whole.is_partly_ready());
    whole.check_whole();
  }
  const ServerStatuses partly = statuses_of(kReadyServer, kEmptyServer);
  EXPECT_TRUE(partly.is_partly_ready());
  const std::string message = message_of([&] { partly.check_whole(); }, ErrorCode::kDataLoss);
  EXPECT_NE(message.find("server B"), std::string::npos) << message;
}

TEST(ServerStatuses, AServerOfAnotherJobIsNamedOnceItIsConfigured) {
  constexpr JobConfig kBounded = {.mode = UpdateMode::kBounded, .staleness = 2};
  statuses_of(kEmptyServer, kReadyServer).check_job({});
  ServerStatus other = kCreatedServer;
  other.job = kBounded;
  statuses_of(kEmptyServer, other).check_job(kBounded);
  const std::string message = message_of([&] { statuses_of(kReadyServer, other).check_job({}); },
                                         ErrorCode::kFailedPrecondition);
  EXPECT_NE(message.find("server B"), std::string::npos) << message;
}

}  // namespace
}  // namespace brigade::ps
