#include "brigade/io/sha256.h"

#include <gtest/gtest.h>

#include <utility>

namespace brigade::io {
namespace {

// The examples of FIPS 180-2.
TEST(Sha256, MatchesTheKnownDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnThePieces) {
  const std::string text(300, 'x');
  for (std::size_t cut = 0; cut <= text.size(); cut += 13) {
    Sha256 hash;
    hash.update(std::string_view(text).substr(0, cut));
    hash.update(std::as_bytes(std::span(text)).subspan(cut));
    EXPECT_EQ(hash.hex_digest(), sha256_hex(text));
  }
}

TEST(Sha256, ContinuesAfterADigest) {
  Sha256 hash;
  hash.update("a");
  EXPECT_EQ(hash.hex_digest(), sha256_hex("a"));
  EXPECT_EQ(hash.hex_digest(), sha256_hex("a"));
  Sha256 moved = std::move(hash);
  moved.update("bc");
  EXPECT_EQ(moved.hex_digest(), sha256_hex("abc"));
}

}  // namespace
}  // namespace brigade::io
