#include "brigade/io/byte_pieces.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace brigade::io {
namespace {

TEST(BytePieces, AreTheirPiecesInOrder) {
  BytePieces bytes("one");
  bytes.append(std::string("two"));
  bytes.append(std::string());
  bytes.append(shared_bytes("three"));
  EXPECT_EQ(bytes.size(), 11u);
  EXPECT_EQ(bytes.pieces().size(), 3u) << "no piece is empty";
  EXPECT_EQ(bytes.joined(), "onetwothree");
  std::string copy(bytes.size(), '?');
  bytes.copy_to(copy.data());
  EXPECT_EQ(copy, "onetwothree");
  EXPECT_EQ(BytePieces().joined(), "");
}

TEST(BytePieces, SharesMemoryAndKeepsItsOwner) {
  auto owner = std::make_shared<std::string>("shared");
  const std::weak_ptr<std::string> is_alive = owner;
  BytePieces bytes;
  bytes.append({.bytes = *owner, .owner = owner});
  EXPECT_EQ(static_cast<const void*>(bytes.pieces()[0].bytes.data()), owner->data());
  owner->front() = 'S';
  EXPECT_EQ(bytes.joined(), "Shared") << "it is no copy";
  owner.reset();
  EXPECT_FALSE(is_alive.expired());
  bytes = {};
  EXPECT_TRUE(is_alive.expired());
}

TEST(BytePieces, WhatWasUnsharedDoesNotChange) {
  const auto owner = std::make_shared<std::string>("shared");
  BytePieces bytes("is ");
  bytes.append({.bytes = *owner, .owner = owner});
  bytes.unshare();
  *owner = "changed";
  EXPECT_EQ(bytes.joined(), "is shared");
}

}  // namespace
}  // namespace brigade::io
