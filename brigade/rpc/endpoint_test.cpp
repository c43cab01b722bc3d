#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/rpc/endpoint.h"

namespace brigade::rpc {
namespace {

TEST(Endpoint, BeyondLoopbackNeedsAKey) {
  const cluster::Address far{"worker0.example", 2222};
  EXPECT_NO_THROW(require_key_beyond_loopback(far, KeyState::kPresent, "listen on"));
  for (const char* host : {"::1", "ip6-localhost", "::ffff:127.0.0.1", "LocalHost"})
    EXPECT_NO_THROW(require_key_beyond_loopback({host, 1}, KeyState::kAbsent, "listen on")) << host;
  EXPECT_THROW(require_key_beyond_loopback({"::ffff:10.0.0.1", 1}, KeyState::kAbsent, "listen on"),
               Error);
  try {
    require_key_beyond_loopback(far, KeyState::kAbsent, "listen on");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("brigade launch --new-key"));
  }
}

TEST(Endpoint, ListensOnAnAddressOrOnAllInterfaces) {
  EXPECT_EQ(listen_text({"127.0.0.1", 7}), "127.0.0.1:7");
  EXPECT_EQ(listen_text({"localhost", 7}), "127.0.0.1:7");
  EXPECT_EQ(listen_text({"::1", 7}), "[::1]:7");
  EXPECT_EQ(listen_text({"ip6-localhost", 7}), "[::1]:7");
  EXPECT_EQ(listen_text({"::ffff:127.0.0.1", 7}), "127.0.0.1:7");
  EXPECT_EQ(listen_text({"worker0", 7}), "[::]:7");
}

TEST(Endpoint, ReachesItself) {
  EXPECT_EQ(connect_to_self_text({"worker0", 7}), "localhost:7");
  EXPECT_EQ(connect_to_self_text({"0.0.0.0", 7}), "localhost:7");
  EXPECT_EQ(connect_to_self_text({"::1", 7}), "[::1]:7");
  EXPECT_EQ(connect_text({"localhost", 7}), "127.0.0.1:7");
  EXPECT_EQ(connect_text({"ip6-loopback", 7}), "[::1]:7");
}

}  // namespace
}  // namespace brigade::rpc
