#include "brigade/cluster/host_identity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

namespace brigade::cluster {
namespace {

/// The identity in a thread with new namespaces, which has this host name; nothing, with the reason
/// in `refused`, where that is not permitted.
std::optional<HostIdentity> identity_in(int namespaces, const std::string& name,
                                        std::string& refused) {
  std::optional<HostIdentity> found;
  std::thread([&] {
    if (::unshare(namespaces) != 0) {
      refused = std::strerror(errno);
      return;
    }
    if (!name.empty()) {
      EXPECT_EQ(::sethostname(name.data(), name.size()), 0);
    }
    found = this_host_identity();
  }).join();
  return found;
}

TEST(HostIdentity, IsStable) {
  EXPECT_EQ(this_host_identity(), this_host_identity());
  EXPECT_FALSE(this_host_identity().kernel.empty());
}

TEST(HostIdentity, OfAnotherNameIsTheSameHost) {
  std::string refused;
  const auto renamed = identity_in(CLONE_NEWUTS, "another-name", refused);
  if (!renamed) GTEST_SKIP() << "unshare: " << refused;
  EXPECT_EQ(*renamed, this_host_identity());
}

TEST(HostIdentity, OfAnotherNetworkHasTheSameProcessNamespaceOnly) {
  std::string refused;
  const auto apart = identity_in(CLONE_NEWNET, "", refused);
  if (!apart) GTEST_SKIP() << "unshare: " << refused;
  EXPECT_TRUE(same_process_namespace(*apart, this_host_identity()));
  EXPECT_FALSE(same_network_namespace(*apart, this_host_identity()));
}

TEST(HostIdentity, KernelsProcessesAndNetworksDistinguishHosts) {
  const HostIdentity one{.kernel = "k", .processes = "p", .network = "n"};
  HostIdentity other = one;
  EXPECT_TRUE(same_process_namespace(one, other) && same_network_namespace(one, other));
  other.processes = "q";
  EXPECT_TRUE(!same_process_namespace(one, other) && same_network_namespace(one, other));
  other = one;
  other.network = "m";
  EXPECT_TRUE(same_process_namespace(one, other) && !same_network_namespace(one, other));
  other = one;
  other.kernel = "l";
  EXPECT_TRUE(!same_process_namespace(one, other) && !same_network_namespace(one, other));
}

}  // namespace
}  // namespace brigade::cluster
