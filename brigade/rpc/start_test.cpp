#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>

#include "brigade/base/log.h"
#include "brigade/rpc/rendezvous.h"
#include "brigade/rpc/testing/thread_cluster.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::join_error;
using testing::launched_config;
using testing::test_options;

std::vector<cluster::ClusterConfig> addressed_configs(int world_size) {
  std::vector<std::string> addresses;
  for (int i = 0; i < world_size; ++i) {
    addresses.push_back("127.0.0.1:" + std::to_string(testing::free_port()));
  }
  std::vector<cluster::ClusterConfig> configs;
  for (int rank = 0; rank < world_size; ++rank) {
    auto config = launched_config(addresses[0], rank, world_size);
    config.cluster = cluster::ClusterSpec(
        std::map<std::string, std::vector<std::string>>{{"worker", addresses}});
    config.rendezvous_host = cluster::ClusterConfig::RendezvousHost::kFirstMember;
    configs.push_back(config);
  }
  return configs;
}

TEST(Start, NamesTheMissingTaskAndAddressToAll) {
  auto configs = addressed_configs(3);
  const std::string missing_address = configs[0].cluster.task_address({"worker", 1});
  configs.erase(configs.begin() + 1);
  JoinOptions options = test_options();
  options.start_timeout = milliseconds(500);
  const auto joined = testing::join_together(configs, options);
  for (const auto& one : joined) {
    ASSERT_TRUE(one.error);
    EXPECT_EQ(one.error->code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(one.error->what(), HasSubstr("/job:worker/task:1 at " + missing_address));
  }
  EXPECT_STREQ(joined[0].error->what(), joined[1].error->what());
}

TEST(Start, NamesTheFirstMemberThatCannotBeReached) {
  const auto configs = addressed_configs(2);
  JoinOptions options = test_options();
  options.start_timeout = milliseconds(300);
  const Error error = join_error(configs[1], options);
  EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(error.what(), HasSubstr("/job:worker/task:0 at " + configs[0].rendezvous));
}

TEST(Start, WaitsForAFirstMemberThatComesLater) {
  const auto configs = addressed_configs(2);
  std::vector<testing::Joined> first, second;
  std::jthread worker([&] { second = testing::join_together({configs[1]}, test_options()); });
  std::this_thread::sleep_for(milliseconds(100));  // orders nothing: either order must do
  first = testing::join_together({configs[0]}, test_options());
  worker.join();
  EXPECT_FALSE(first[0].error);
  EXPECT_FALSE(second[0].error);
}

TEST(Start, LogsWhatItWaitsFor) {
  const auto configs = addressed_configs(2);
  const std::string awaited =
      "/job:worker/task:1 at " + configs[0].cluster.task_address({"worker", 1});
  JoinOptions options = test_options();
  options.peer_timeout = milliseconds(400);  // it asks four times as often
  std::mutex mutex;
  std::string log;
  base::set_log_sink([&](base::LogLevel, std::string_view text) {
    const std::lock_guard lock(mutex);
    log += text;
    log += "; ";
  });
  const auto has_logged = [&](const std::string& text) {
    return testing::eventually([&] {
      const std::lock_guard lock(mutex);
      return log.find(text) != std::string::npos;
    });
  };
  std::jthread first([&] { testing::join_together({configs[0]}, options); });
  EXPECT_TRUE(has_logged("Waiting for 1 of 2 processes: " + awaited)) << log;
  testing::join_together({configs[1]}, options);
  EXPECT_TRUE(has_logged("All 2 processes have joined")) << log;
  first.join();
  base::set_log_sink({});
}

TEST(Start, RefusesASecondProcessOfARankAndContinues) {
  const auto server = make_rendezvous_server({.world_size = 2});
  std::vector<testing::Joined> joined;
  std::jthread twins([&] {
    joined = testing::join_together(
        {launched_config(server->address(), 1, 2), launched_config(server->address(), 1, 2)},
        test_options());
  });
  const auto first = join(launched_config(server->address(), 0, 2), test_options());
  twins.join();
  const bool is_first_refused = joined[0].error.has_value();
  ASSERT_NE(is_first_refused, joined[1].error.has_value());
  const Error error = is_first_refused ? *joined[0].error : *joined[1].error;
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(error.what(), HasSubstr("Two processes claim rank 1"));
  EXPECT_FALSE(first->lost());
  try {
    join(launched_config(server->address(), 1, 2), test_options());
    FAIL();
  } catch (const RankTakenError& taken) {
    EXPECT_EQ(taken.holder(), RankHolder::kPresent);
  }
}

TEST(Start, RefusesAnotherWorldSize) {
  const auto server = make_rendezvous_server({.world_size = 2});
  const Error error = join_error(launched_config(server->address(), 1, 3), test_options());
  EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("3 processes"), HasSubstr("expects 2")));
}

TEST(Start, RefusesAnEarlierGeneration) {
  const auto server = make_rendezvous_server({.world_size = 2, .generation = 3});
  const Error error = join_error(launched_config(server->address(), 1, 2), test_options());
  EXPECT_EQ(error.code(), ErrorCode::kAborted);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("generation 0"), HasSubstr("generation 3")));
}

TEST(Start, WaitsForALaterGeneration) {
  const auto server = make_rendezvous_server({.world_size = 3});
  auto configs = {launched_config(server->address(), 0, 2),
                  launched_config(server->address(), 1, 2)};
  std::vector<cluster::ClusterConfig> next(configs);
  for (auto& config : next) config.generation = 1;
  std::vector<testing::Joined> joined;
  std::jthread members([&] { joined = testing::join_together(next, test_options()); });
  server->begin_generation(1, 2);
  members.join();
  for (const auto& one : joined) EXPECT_FALSE(one.error) << one.error->what();
}

TEST(Start, CancelEndsTheWaitImmediatelyAndNotifiesTheOthers) {
  const auto server = make_rendezvous_server({.world_size = 3});
  JoinOptions options = test_options();
  options.start_timeout = seconds(60);
  JoinOptions patient = options;
  options.cancel = {};
  std::vector<testing::Joined> cancelled, other;
  std::jthread one([&] {
    cancelled = testing::join_together({launched_config(server->address(), 0, 3)}, options);
  });
  std::jthread two(
      [&] { other = testing::join_together({launched_config(server->address(), 1, 3)}, patient); });
  std::this_thread::sleep_for(milliseconds(100));  // lets both come first; either order must do
  const auto start = std::chrono::steady_clock::now();
  options.cancel.cancel();
  one.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(2));
  EXPECT_EQ(cancelled[0].error->code(), ErrorCode::kCancelled);
  server->begin_generation(1, 1);  // ends the second's wait if it came too late to hear
  two.join();
  ASSERT_TRUE(other[0].error);
  EXPECT_THAT(other[0].error->what(), HasSubstr("rank "));
}

TEST(Start, CancelEndsTheSearchForAServer) {
  JoinOptions options = test_options();
  options.cancel = {};
  std::vector<testing::Joined> joined;
  const auto config = launched_config("127.0.0.1:" + std::to_string(testing::free_port()), 0, 2);
  std::jthread one([&] { joined = testing::join_together({config}, options); });
  options.cancel.cancel();
  one.join();
  EXPECT_EQ(joined[0].error->code(), ErrorCode::kCancelled);
}

TEST(Start, RefusesNonsense) {
  EXPECT_THROW(join(launched_config("127.0.0.1:1", 2, 2), test_options()), Error);
  EXPECT_THROW(join(launched_config("127.0.0.1:1", -1, 2), test_options()), Error);
  EXPECT_THROW(join(launched_config("127.0.0.1:0", 0, 2), test_options()), Error);
  EXPECT_THROW(join(launched_config("", 0, 2), test_options()), Error);
  EXPECT_THROW(make_rendezvous_server({.world_size = 0}), Error);
}

}  // namespace
}  // namespace brigade::rpc
