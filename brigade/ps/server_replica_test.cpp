#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/strings.h"
#include "brigade/base/testing/error_code.h"
#include "brigade/concurrency/testing/waiting.h"
#include "brigade/io/atomic_write.h"
#include "brigade/ps/server.h"
#include "brigade/ps/server_tasks.h"
#include "brigade/ps/testing/small_job.h"
#include "brigade/ps/testing/unused_port.h"
#include "brigade/rpc/rendezvous.h"

/// Both processes of a replicated server, with their network and folders.
namespace brigade::ps {
namespace {

using Jobs = std::map<std::string, std::vector<std::string>>;

const cluster::Task kReplicatedChief = {.job = "worker", .index = 0};

class ServerReplicaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!rpc::is_built_in()) GTEST_SKIP() << "needs gRPC";
    std::string pattern = (std::filesystem::temp_directory_path() / "ps-replica-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    start(0);
    start(1);
    client_ = std::make_unique<ParameterClient>(
        kReplicatedChief, connect_to_servers(cluster_, kReplicatedChief, std::nullopt),
        ParameterClientOptions{.server_timeout = concurrency::testing::kLong});
    client_->create(testing::small_model(), testing::small_placement(1),
                    *optim::Sgd{.learning_rate = 1}.rule(), {});
    client_->set_ready();
  }
  void TearDown() override {
    client_.reset();
    for (std::size_t process = 0; process < 2; ++process) stop(process);
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  void start(std::size_t process) {
    servers_[process] = std::make_unique<Server>(
        cluster_, process == 0 ? "ps" : "ps_replica", 0,
        ServerOptions{.folder = folder_, .key = std::nullopt, .lease = std::chrono::seconds(1)});
  }
  void stop(std::size_t process) { servers_[process].reset(); }
  bool comes(const std::function<bool()>& done) const {
    const auto end = std::chrono::steady_clock::now() + concurrency::testing::kLong;
    while (!done() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return done();
  }
  bool comes_paired(std::size_t process) const {
    return comes([&] { return servers_[process]->is_paired(); });
  }
  double weight() { return client_->pull().values.at(0).value.min().item<double>(); }

  const cluster::ClusterSpec cluster_ = cluster::ClusterSpec(
      Jobs{{"ps", {base::str_cat("127.0.0.1:", testing::unused_port())}},
           {"ps_replica", {base::str_cat("127.0.0.1:", testing::unused_port())}},
           {"worker", {"127.0.0.1:1"}}});
  io::Path folder_;
  std::array<std::unique_ptr<Server>, 2> servers_;
  std::unique_ptr<ParameterClient> client_;
};

TEST(ServerReplica, HasTheIndexOfAServer) {
  const cluster::ClusterSpec cluster(
      Jobs{{"ps", {"a:1"}}, {"ps_replica", {"b:1", "c:1"}}, {"worker", {"d:1"}}});
  EXPECT_EQ(base::testing::code_of([&] { check_replicas(cluster); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(base::testing::code_of([&] { const Server server(cluster, "ps", 0); }),
            ErrorCode::kInvalidArgument);
  const cluster::ClusterSpec good(
      Jobs{{"ps", {"a:1", "b:1"}}, {"ps_replica", {"c:1"}}, {"worker", {"d:1"}}});
  EXPECT_EQ(other_process(good, {.job = "ps", .index = 0}),
            (cluster::Task{.job = "ps_replica", .index = 0}));
  EXPECT_EQ(other_process(good, {.job = "ps_replica", .index = 0}),
            (cluster::Task{.job = "ps", .index = 0}));
  EXPECT_EQ(other_process(good, {.job = "ps", .index = 1}), std::nullopt);
}

TEST_F(ServerReplicaTest, ServesWhenTheServerIsLostAlsoWithItsFolder) {
  ASSERT_TRUE(comes_paired(0));
  client_->push(testing::small_gradients(1));
  stop(0);
  std::filesystem::remove_all(folder_ / "ps-0");
  client_->push(testing::small_gradients(2));
  EXPECT_EQ(weight(), -3);
  EXPECT_EQ(servers_[1]->status().step, 2);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "ps-0-replica"));
  start(0);
  ASSERT_TRUE(comes_paired(1));
  client_->push(testing::small_gradients(4));
  stop(1);
  client_->push(testing::small_gradients(8));
  EXPECT_EQ(weight(), -15);
  EXPECT_EQ(client_->step(), 4);
}

TEST_F(ServerReplicaTest, ItsFolderMayBeUsedWithoutAReplicaAndWithOneAgain) {
  ASSERT_TRUE(comes_paired(0));
  client_->push(testing::small_gradients(1));
  client_.reset();
  for (std::size_t process = 0; process < 2; ++process) stop(process);
  const cluster::ClusterSpec alone(Jobs{
      {"ps", {base::str_cat("127.0.0.1:", testing::unused_port())}}, {"worker", {"127.0.0.1:1"}}});
  const ServerOptions options{.folder = folder_, .key = std::nullopt};
  const auto connected = [&](const cluster::ClusterSpec& cluster) {
    auto client = std::make_unique<ParameterClient>(
        kReplicatedChief, connect_to_servers(cluster, kReplicatedChief, std::nullopt),
        ParameterClientOptions{.server_timeout = concurrency::testing::kLong});
    client->create(testing::small_model(), testing::small_placement(1),
                   *optim::Sgd{.learning_rate = 1}.rule(), {});
    return client;
  };
  {
    const Server server(alone, "ps", 0, options);
    connected(alone)->push(testing::small_gradients(2));
  }
  start(0);
  start(1);  // its folder lacks that push
  client_ = connected(cluster_);
  EXPECT_EQ(weight(), -3);
  ASSERT_TRUE(comes_paired(0));
  client_.reset();
  for (std::size_t process = 0; process < 2; ++process) stop(process);
  io::atomic_write(*io::posix_file_system(), folder_ / "ps-0" / "epoch", std::string_view("0\n"));
  EXPECT_EQ(base::testing::code_of([&] { const Server server(alone, "ps", 0, options); }),
            ErrorCode::kFailedPrecondition)
      << "it was being filled";
}

TEST_F(ServerReplicaTest, EndsWithTheJob) {
  ASSERT_TRUE(comes_paired(0));
  std::vector<std::future<void>> ends;
  for (const auto& server : servers_)
    ends.push_back(std::async(std::launch::async, [each = server.get()] { each->join(); }));
  client_.reset();
  for (std::future<void>& end : ends)
    EXPECT_EQ(end.wait_for(concurrency::testing::kLong), std::future_status::ready);
  for (const auto& server : servers_) server->shutdown();
}

}  // namespace
}  // namespace brigade::ps
