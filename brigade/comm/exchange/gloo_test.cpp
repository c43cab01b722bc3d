// The link over Gloo, beyond what process_communicator_test.cpp tests of every transport: which
// connections it accepts.

#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/testing/process_threads.h"

namespace brigade::comm {
namespace {

class Gloo : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gloo_is_built_in()) GTEST_SKIP() << "Gloo is not built in.";
    unsetenv("BRIGADE_CLUSTER_KEY");
    unsetenv("BRIGADE_CLUSTER_KEY_FILE");
  }
  void TearDown() override {
    unsetenv("BRIGADE_CLUSTER_KEY");
    unsetenv("GLOO_SOCKET_IFNAME");
  }

  /// Two hosts by name, which are both this one.
  static std::vector<std::shared_ptr<cluster::Membership>> two_hosts() {
    return cluster::testing::make_in_memory_memberships(2, {"127.0.0.1", "localhost"});
  }
};

TEST_F(Gloo, BetweenHostsNothingIsOpenedWithoutAKey) {
  try {
    make_process_communicator(two_hosts()[0], {.transport = Transport::kGloo});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied);
    EXPECT_NE(std::string(error.what()).find("--new-key"), std::string::npos) << error.what();
  }
}

std::set<std::string> private_folders() {
  std::set<std::string> found;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::temp_directory_path())) {
    if (entry.path().filename().string().starts_with("brigade-tls-"))
      found.insert(entry.path().string());
  }
  return found;
}

TEST_F(Gloo, WithAKeyItUsesTlsAndRemovesTheIdentityFiles) {
  let_ranks_be_threads();
  setenv("BRIGADE_CLUSTER_KEY", cluster::ClusterKey::generate().to_hex().c_str(), 1);
  setenv("GLOO_SOCKET_IFNAME", "lo", 1);  // the only way between two hosts that are both this one
  const auto before = private_folders();
  const auto memberships = two_hosts();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto communicator = make_process_communicator(
            memberships[rank], {.timeout = std::chrono::seconds(60)});  // auto: two hosts
        EXPECT_EQ(communicator->transport(), Transport::kGloo);
        const at::Tensor tensor = at::full({300'000}, rank + 1.0);
        communicator->all_reduce({&tensor, 1}, ReduceOp::kSum)->wait();
        EXPECT_EQ(tensor.min().item<double>(), 3);
        EXPECT_EQ(tensor.max().item<double>(), 3);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
        cluster::testing::lose(*memberships[rank], rank, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(private_folders(), before);
}

/// Like a cut cable: shuts down all TCP connections of this process. Returns how many.
int cut_connections() {
  int cut = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename().string());
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) continue;
    if (::shutdown(descriptor, SHUT_RDWR) == 0) ++cut;
  }
  return cut;
}

TEST_F(Gloo, ClosedConnectionsAreAPromptErrorAndDoNotEndTheProcess) {
  let_ranks_be_threads();
  const auto memberships = cluster::testing::make_in_memory_memberships(2);
  std::atomic<int> rounds = 0;
  std::atomic<int> errors = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto communicator =
            make_process_communicator(memberships[rank], {.transport = Transport::kGloo});
        const at::Tensor tensor = at::full({300'000}, 1.0);
        for (;; ++rounds) communicator->all_reduce({&tensor, 1}, ReduceOp::kMax)->wait();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
        ++errors;
      }
    });
  }
  while (rounds < 20) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_GT(cut_connections(), 0);
  cluster::testing::lose(*memberships[0], 1, "its connection was closed");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace brigade::comm
