#include "brigade/ps/server/server_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "brigade/base/testing/error_code.h"

namespace brigade::ps {
namespace {

TEST(ServerThreads, AllServersAreServedAtTheSameTime) {
  ServerThreads threads(3);
  std::atomic<int> present{0};
  std::atomic<bool> have_met{true};
  threads.run([&](int) {
    ++present;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (present < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (present < 3) have_met = false;
  });
  EXPECT_TRUE(have_met);
}

TEST(ServerThreads, TheFirstErrorByIndexIsThrownWhenAllHaveEnded) {
  ServerThreads threads(4);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ended{0};
    std::string message;
    try {
      threads.run([&](int server) {
        ++ended;
        if (server == 1 || server == 3) throw std::runtime_error(std::to_string(server));
      });
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    EXPECT_EQ(message, "1");
    EXPECT_EQ(ended, 4);
  }
}

TEST(ServerThreads, NeedsAServer) {
  EXPECT_EQ(base::testing::code_of([] { ServerThreads(0); }), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::ps
