#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <future>
#include <thread>

#include "brigade/cluster/address.h"
#include "brigade/rpc/channel.h"
#include "brigade/rpc/join_call.h"
#include "brigade/rpc/proto/rendezvous.grpc.pb.h"
#include "brigade/rpc/rendezvous.h"
#include "brigade/rpc/store_calls.h"
#include "brigade/rpc/testing/thread_cluster.h"
#include "brigade/rpc/tls_probe.h"

namespace brigade::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::join_error;
using testing::launched_config;

JoinOptions options_with(std::optional<cluster::ClusterKey> key, milliseconds start_timeout) {
  JoinOptions options = testing::test_options();
  options.key = std::move(key);
  options.start_timeout = start_timeout;
  return options;
}

/// A connection of a client that is not Brigade.
class Stranger {
 public:
  Stranger(const std::string& where, const std::string& words)
      : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(cluster::parse_address(where).port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_connected =
        ::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    check_state(is_connected, "The stranger cannot connect.");
    (void)::send(descriptor_, words.data(), words.size(), MSG_NOSIGNAL);
  }
  ~Stranger() { ::close(descriptor_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  /// What has been said to it so far.
  std::string heard() const {
    std::string all(65536, '\0');
    const auto size = ::recv(descriptor_, all.data(), all.size(), MSG_DONTWAIT);
    all.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return all;
  }

  /// Whether the other side ends the connection within twenty seconds.
  bool is_cut_off() const {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char bytes[4096];
    ssize_t count = 1;
    while (count > 0) count = ::recv(descriptor_, bytes, sizeof bytes, 0);
    return count == 0 || errno == ECONNRESET;
  }

 private:
  int descriptor_;
};

void expect_undisturbed(const std::optional<cluster::ClusterKey>& key) {
  const auto server = make_rendezvous_server({.key = key, .world_size = 2});
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string settings("\0\0\0\4\0\0\0\0\0", 9);
  Stranger silent(server->address(), "");
  Stranger garbage(server->address(), std::string(4000, '\xa5'));
  Stranger web(server->address(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  Stranger http2(server->address(), preface + settings);
  const auto members = testing::join_all(*server, 2, options_with(key, seconds(20)));
  members[0]->set("key", "a secret value");
  Stranger late(server->address(), std::string(100, '\0'));
  EXPECT_EQ(members[1]->get("key", seconds(10)), "a secret value");
  EXPECT_FALSE(members[0]->lost());
  EXPECT_FALSE(members[1]->lost());
  for (const Stranger* stranger : {&silent, &garbage, &web, &http2, &late}) {
    EXPECT_EQ(stranger->heard().find("secret"), std::string::npos);
  }
}

TEST(Security, StrangersDisturbNobodyOnLoopback) {
  expect_undisturbed(std::nullopt);
}

TEST(Security, StrangersDisturbNobodyWithAKey) {
  expect_undisturbed(cluster::ClusterKey::generate());
}

TEST(Security, MembersWithTheKeyJoinOnAllInterfaces) {
  const auto key = cluster::ClusterKey::generate();
  const auto server =
      make_rendezvous_server({.address = "some-name.example:0", .key = key, .world_size = 2});
  const auto port = cluster::parse_address(server->address()).port;
  EXPECT_EQ(server->address(), "some-name.example:" + std::to_string(port));
  const std::string address = "127.0.0.1:" + std::to_string(port);
  const auto joined =
      testing::join_together({launched_config(address, 0, 2), launched_config(address, 1, 2)},
                             options_with(key, seconds(20)));
  for (const auto& one : joined) EXPECT_FALSE(one.error) << one.error->what();
}

TEST(Security, WithoutAKeyNothingListensOrConnectsBeyondLoopback) {
  for (const char* address : {"0.0.0.0:0", "[::]:0", "worker0.example:0"}) {
    try {
      make_rendezvous_server({.address = address, .world_size = 2});
      FAIL() << address;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied);
      EXPECT_THAT(error.what(), HasSubstr("--new-key"));
    }
  }
  const Error error = join_error(launched_config("worker0.example:2222", 1, 2),
                                 options_with(std::nullopt, seconds(20)));
  EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied);
}

TEST(Security, CallsWithoutAMembersTokenAreRefusedAndCounted) {
  const auto server = make_rendezvous_server({.world_size = 2});
  const auto members = testing::join_all(*server, 2, testing::test_options());
  const auto calls =
      make_store_calls(make_channel(server->address(), std::nullopt), {}, seconds(10));
  int num_refused = 0;
  for (const MemberId id : {0, 1, 2, 3}) {
    for (const std::string& token : {std::string(), std::string(32, '\0')}) {
      const Credential stranger{id, token};
      for (const auto& call : std::vector<std::function<void()>>{
               [&] { calls->set(stranger, "key", "diverted"); },
               [&] { calls->add(stranger, "count", 1); },
               [&] { calls->get(stranger, "key", milliseconds(1)); },
               [&] { calls->barrier(stranger, "end", milliseconds(1)); }}) {
        try {
          call();
          ADD_FAILURE() << id;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied) << error.what();
          ++num_refused;
        }
      }
    }
  }
  EXPECT_EQ(server->num_refused_calls(), num_refused);
  EXPECT_EQ(members[0]->add("count", 2), 2);
  EXPECT_THROW(members[0]->get("key", milliseconds(1)), Error);
  EXPECT_FALSE(members[0]->lost());
}

TEST(Security, ConnectionsWithoutHelloAreClosed) {
  const auto server = make_rendezvous_server(
      {.world_size = 2, .peer_timeout = milliseconds(400), .hello_timeout = milliseconds(100)});
  const auto stub = proto::Rendezvous::NewStub(make_channel(server->address(), std::nullopt));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(20));
  const auto stream = stub->Join(&context);
  proto::ToMember last;
  ASSERT_TRUE(stream->Read(&last));
  EXPECT_EQ(last.end().code(), static_cast<int>(ErrorCode::kDeadlineExceeded));
  EXPECT_FALSE(stream->Read(&last));
  EXPECT_TRUE(stream->Finish().ok());
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const Stranger http2(server->address(), preface + std::string("\0\0\0\4\0\0\0\0\0", 9));
  EXPECT_TRUE(http2.is_cut_off());
}

TEST(Security, AnotherVersionOfTheProtocolIsRefusedByName) {
  const auto server = make_rendezvous_server({.world_size = 2});
  std::promise<MembershipEnd> ended;
  const Hello hello{.protocol = kProtocolVersion - 1,
                    .member = {1, {"worker", 1}, "elsewhere", 4711},
                    .world_size = 2,
                    .start_timeout = seconds(20)};
  const JoinCall old(make_channel(server->address(), std::nullopt), hello,
                     {.on_event = [](const RendezvousEvent&) {},
                      .on_end = [&](const MembershipEnd& ending) { ended.set_value(ending); },
                      .on_close = [](const Closure&) {}});
  auto future = ended.get_future();
  ASSERT_EQ(future.wait_for(seconds(20)), std::future_status::ready);
  const MembershipEnd ending = future.get();
  EXPECT_EQ(ending.error.value().code(), ErrorCode::kFailedPrecondition);
  EXPECT_THAT(ending.error->what(),
              HasSubstr("speaks version " + std::to_string(kProtocolVersion - 1)));
}

TEST(Security, WrongKeyIsRefusedAndNamed) {
  const auto server =
      make_rendezvous_server({.key = cluster::ClusterKey::generate(), .world_size = 2});
  const Error error = join_error(launched_config(server->address(), 1, 2),
                                 options_with(cluster::ClusterKey::generate(), seconds(5)));
  EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied) << error.what();
  EXPECT_THAT(error.what(), HasSubstr("key"));
}

TEST(Security, AProbeDistinguishesAnotherKeyFromTheSame) {
  const auto key = cluster::ClusterKey::generate();
  const auto verdict = [](const std::string& address, const cluster::ClusterKey& own) {
    return probe_tls(cluster::parse_address(address), cluster::make_tls_identity(own), seconds(20));
  };
  const auto server = make_rendezvous_server({.key = key, .world_size = 2});
  EXPECT_EQ(verdict(server->address(), key), TlsVerdict::kSameKey);
  EXPECT_EQ(verdict(server->address(), cluster::ClusterKey::generate()), TlsVerdict::kRefused);
  const auto keyless = make_rendezvous_server({.world_size = 2});
  EXPECT_EQ(verdict(keyless->address(), key), TlsVerdict::kRefused);
  const std::string nobody = "127.0.0.1:" + std::to_string(testing::free_port());
  EXPECT_EQ(verdict(nobody, key), TlsVerdict::kUnknown);
}

TEST(Security, PeerWithoutTheKeyDoesNotGetIn) {
  const auto server =
      make_rendezvous_server({.key = cluster::ClusterKey::generate(), .world_size = 2});
  const Error error = join_error(launched_config(server->address(), 1, 2),
                                 options_with(std::nullopt, milliseconds(700)));
  EXPECT_THAT(error.code(), AnyOf(ErrorCode::kPermissionDenied, ErrorCode::kDeadlineExceeded));
  EXPECT_THAT(error.what(), HasSubstr("cluster key"));
}

TEST(Security, PeerWithAKeyRefusesAServerWithout) {
  const auto server = make_rendezvous_server({.world_size = 2});
  const Error error = join_error(launched_config(server->address(), 1, 2),
                                 options_with(cluster::ClusterKey::generate(), seconds(20)));
  EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied) << error.what();
  EXPECT_THAT(error.what(), HasSubstr("cluster key"));
}

}  // namespace
}  // namespace brigade::rpc
