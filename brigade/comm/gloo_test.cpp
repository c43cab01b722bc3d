// What the link over Gloo does beyond what process_communicator_test.cpp holds of every transport:
// who may connect to it.
#include "brigade/comm/gloo.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <set>
#include <thread>

#include "brigade/base/error.h"
#include "brigade/cluster/cluster_key.h"
#include "brigade/cluster/testing/in_memory_membership.h"
#include "brigade/comm/process_communicator.h"
#include "brigade/comm/testing/ranks_as_threads.h"

namespace brigade::comm {
namespace {

class Gloo : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gloo_is_built_in()) GTEST_SKIP() << "Gloo is not built in.";
    unsetenv("BRIGADE_CLUSTER_KEY");
    unsetenv("BRIGADE_CLUSTER_KEY_FILE");
  }
  void TearDown() override { unsetenv("BRIGADE_CLUSTER_KEY"); }

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

TEST_F(Gloo, WithAKeyItSpeaksTlsAndLeavesNoIdentityBehind) {
  let_ranks_be_threads();
  setenv("BRIGADE_CLUSTER_KEY", cluster::ClusterKey::generate().to_hex().c_str(), 1);
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

}  // namespace
}  // namespace brigade::comm
