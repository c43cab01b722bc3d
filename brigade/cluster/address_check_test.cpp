#include "brigade/cluster/address_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::refusal;
using SparseJobs = std::map<std::string, ClusterSpec::Tasks>;

constexpr auto kEnough = std::chrono::seconds(20);

// A port of 127.0.0.1, taken for as long as this lives.
class LoopbackPort {
 public:
  LoopbackPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    socklen_t size = sizeof address;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~LoopbackPort() { ::close(fd_); }
  LoopbackPort(const LoopbackPort&) = delete;
  LoopbackPort& operator=(const LoopbackPort&) = delete;
  void listen(int backlog) const { ::listen(fd_, backlog); }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

// Connections that nobody accepts, so that the queue of a listener is full.
class Crowd {
 public:
  Crowd(int port, int size) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    for (int i = 0; i < size; ++i) {
      fds_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      ::connect(fds_.back(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    }
  }
  ~Crowd() {
    for (const int fd : fds_) ::close(fd);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  std::vector<int> fds_;
};

std::vector<std::string> names_without_dns(const std::string& host) {
  if (host == "two") return {"127.0.0.2", "127.0.0.1"};
  if (host == "127.0.0.1") return {host};
  throw Error(ErrorCode::kNotFound, "Name or service not known");
}

AddressReport check(const std::string& host, int port, milliseconds timeout = kEnough) {
  const ClusterSpec cluster(SparseJobs{{"worker", {{3, host + ":" + std::to_string(port)}}}});
  return check_addresses(cluster, timeout, names_without_dns).at(0);
}

TEST(AddressCheck, FindsListeningPorts) {
  const LoopbackPort port;
  port.listen(4);
  const AddressReport report = check("127.0.0.1", port.port());
  EXPECT_EQ(report.task, (Task{"worker", 3}));
  EXPECT_EQ(report.reachability, Reachability::kReachable);
  EXPECT_EQ(report.port, PortState::kTaken);
  EXPECT_TRUE(report.is_good());
}

TEST(AddressCheck, NothingListensBeforeTheStart) {
  const int port = LoopbackPort().port();
  const AddressReport report = check("127.0.0.1", port);
  EXPECT_EQ(report.reachability, Reachability::kRefused);
  EXPECT_EQ(report.port, PortState::kFree);
  EXPECT_TRUE(report.is_good());
}

TEST(AddressCheck, APortThatIsTakenButSilentIsBad) {
  const LoopbackPort port;  // bound, not listening
  const AddressReport report = check("127.0.0.1", port.port());
  EXPECT_EQ(report.reachability, Reachability::kRefused);
  EXPECT_EQ(report.port, PortState::kTaken);
  EXPECT_FALSE(report.is_good());
}

TEST(AddressCheck, NamesTheReasonForAHostThatIsNone) {
  const AddressReport report = check("no-such-host.invalid", 1);
  EXPECT_EQ(report.reachability, Reachability::kNoSuchHost);
  EXPECT_EQ(report.detail, "Name or service not known");
  EXPECT_EQ(report.port, std::nullopt);
  EXPECT_FALSE(report.is_good());
}

TEST(AddressCheck, GivesUpAtItsDeadline) {
  const LoopbackPort port;
  port.listen(0);
  const Crowd crowd(port.port(), 4);
  const AddressReport report = check("127.0.0.1", port.port(), milliseconds(100));
  EXPECT_EQ(report.reachability, Reachability::kTimedOut);
  EXPECT_FALSE(report.is_good());
}

TEST(AddressCheck, TakesTheBestOfAHostsAddresses) {
  const LoopbackPort port;
  port.listen(4);
  const AddressReport report = check("two", port.port());
  EXPECT_EQ(report.reachability, Reachability::kReachable);
  EXPECT_EQ(report.port, PortState::kTaken);
}

TEST(AddressCheck, AHangingLookUpDelaysNoOther) {
  const LoopbackPort port;
  port.listen(4);
  const auto release = std::make_shared<std::promise<void>>();
  const auto released = release->get_future().share();
  const HostLookup lookup = [released](const std::string& host) -> std::vector<std::string> {
    if (host == "hangs") released.wait();
    return {"127.0.0.1"};
  };
  const std::string suffix = ":" + std::to_string(port.port());
  const ClusterSpec cluster(SparseJobs{{"worker", {{0, "hangs" + suffix}, {1, "works" + suffix}}}});
  const auto reports = check_addresses(cluster, milliseconds(200), lookup);
  release->set_value();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].reachability, Reachability::kTimedOut);
  EXPECT_EQ(reports[0].detail, "its name was not looked up in time");
  EXPECT_EQ(reports[1].reachability, Reachability::kReachable);
}

TEST(AddressCheck, TheSystemKnowsNumbersAndThisHost) {
  const auto addresses = look_up({"127.0.0.1", "::1"}, kEnough);
  EXPECT_THAT(addresses.at("127.0.0.1").addresses, ::testing::ElementsAre("127.0.0.1"));
  EXPECT_THAT(addresses.at("::1").addresses, ::testing::ElementsAre("::1"));
}

TEST(AddressCheck, RefusesAnInvalidTimeout) {
  EXPECT_THAT(refusal([] { check_addresses({}, milliseconds(0)); }), HasSubstr("not 0 ms"));
  EXPECT_TRUE(check_addresses({}, milliseconds(1)).empty());
}

}  // namespace
}  // namespace brigade::cluster
