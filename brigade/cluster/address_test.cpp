#include "brigade/cluster/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/cluster/testing/refusal.h"

namespace brigade::cluster {
namespace {

using ::testing::HasSubstr;
using testing::refusal;

std::string address_refusal(const char* text) {
  return refusal([&] { parse_address(text); });
}

TEST(Address, ReadsWhatItWrites) {
  for (const char* text :
       {"worker0.example.org:2222", "10.0.0.1:1", "a_b-c:65535", "[::1]:80", "[fe80::1%eth0]:80"}) {
    EXPECT_EQ(to_string(parse_address(text)), text);
  }
  EXPECT_EQ(parse_address("[::1]:80").host, "::1");
}

TEST(Address, SaysWhatIsWrong) {
  EXPECT_EQ(address_refusal("a"),
            "INVALID_ARGUMENT: 'a' is not an address: it has no port; write host:port, or "
            "[IPv6]:port, as in worker0.example.org:2222.");
  EXPECT_THAT(address_refusal(""), HasSubstr("it has no port"));
  EXPECT_THAT(address_refusal("a:"), HasSubstr("it has no port"));
  EXPECT_THAT(address_refusal("[::1]"), HasSubstr("it has no port"));
  EXPECT_THAT(address_refusal(":1"), HasSubstr("it has no host"));
  EXPECT_THAT(address_refusal("[]:1"), HasSubstr("it has no host"));
  EXPECT_THAT(address_refusal("a:0"), HasSubstr("its port '0' is not a number from 1 to 65535"));
  EXPECT_THAT(address_refusal("a:65536"), HasSubstr("its port '65536' is not a number"));
  EXPECT_THAT(address_refusal("a:-1"), HasSubstr("its port '-1' is not a number"));
  EXPECT_THAT(address_refusal("a:99999999999999999999"), HasSubstr("is not a number"));
  EXPECT_THAT(address_refusal("::1:80"), HasSubstr("an IPv6 address stands in brackets"));
  EXPECT_THAT(address_refusal("[::1:80"), HasSubstr("a ']' is missing"));
  EXPECT_THAT(address_refusal("a b:1"), HasSubstr("no host has the character ' '"));
  EXPECT_THAT(address_refusal("grpc://a:1"), HasSubstr("a protocol does not belong to it"));
}

TEST(Address, AMessageShowsTheBeginningOfALongValue) {
  const std::string many(100'000, 'a');
  for (const std::string& text :
       {many, many + ":1", "a:" + many, "[" + many + "]:1", "a:1" + many}) {
    EXPECT_LT(address_refusal(text.c_str()).size(), 1000u);
  }
  EXPECT_THAT(address_refusal((many + ":1").c_str()), HasSubstr("its host has 100000 characters"));
}

TEST(Address, PortZeroIsForListening) {
  EXPECT_EQ(parse_address("127.0.0.1:0", PortZero::kAllowed).port, 0);
}

TEST(Loopback, IsThisMachineAlone) {
  for (const char* host :
       {"127.0.0.1", "127.8.9.1", "::1", "localhost", "LOCALHOST", "0:0:0:0:0:0:0:1",
        "ip6-localhost", "ip6-loopback", "localhost6", "::ffff:127.0.0.1", "::FFFF:7f00:1"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example.org", "", "localhost2",
                           "::ffff:10.0.0.1", "::127.0.0.1", "ip6-localnet", "::ffff:0.0.0.0"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

TEST(Loopback, HasOneAddressUnderAllItsNames) {
  EXPECT_EQ(loopback_address("localhost"), "127.0.0.1");
  EXPECT_EQ(loopback_address("127.8.9.1"), "127.8.9.1");
  EXPECT_EQ(loopback_address("::ffff:127.8.9.1"), "127.8.9.1");
  EXPECT_EQ(loopback_address("ip6-localhost"), "::1");
  EXPECT_EQ(loopback_address("worker0"), std::nullopt);
}

}  // namespace
}  // namespace brigade::cluster
