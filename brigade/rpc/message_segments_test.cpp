#include "brigade/rpc/message_segments.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace brigade::rpc {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

TEST(MessageSegments, AreUsedAgainOnceNobodyHasTheirBytes) {
  MessageSegments segments(64 * kMegabyte);
  auto loan = segments.take(3 * kMegabyte);
  ASSERT_NE(loan, nullptr);
  EXPECT_GE(loan->segment().size(), 3 * kMegabyte);
  std::byte* const memory = loan->segment().data();
  std::memset(memory, 'a', 3 * kMegabyte);
  auto bytes = segments.keep(std::move(loan));
  auto other = segments.take(3 * kMegabyte);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other->segment().data(), memory) << "somebody still reads the first";
  EXPECT_EQ(memory[0], std::byte{'a'});
  bytes.reset();
  const auto again = segments.take(2 * kMegabyte);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->segment().data(), memory);
}

TEST(MessageSegments, TheSegmentOfAFailedCallIsNotUsedAgain) {
  MessageSegments segments(64 * kMegabyte);
  auto loan = segments.take(kMegabyte);
  ASSERT_NE(loan, nullptr);
  const auto nonce = loan->segment().handle().nonce;
  loan.reset();
  const auto other = segments.take(kMegabyte);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other->segment().handle().nonce, nonce);
}

TEST(MessageSegments, HaveALimitThatIsGivenBack) {
  MessageSegments segments(8 * kMegabyte);
  EXPECT_EQ(segments.take(9 * kMegabyte), nullptr);
  EXPECT_EQ(segments.take(~std::size_t{0}), nullptr);
  auto first = segments.take(6 * kMegabyte);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(segments.take(6 * kMegabyte), nullptr);
  first.reset();
  auto second = segments.take(6 * kMegabyte);
  ASSERT_NE(second, nullptr);
  segments.keep(std::move(second));
  const auto larger = segments.take(7 * kMegabyte - kMegabyte / 8);
  EXPECT_NE(larger, nullptr) << "those that are free make room";
}

TEST(MessageSegments, BytesOutliveTheSegments) {
  auto segments = std::make_unique<MessageSegments>(8 * kMegabyte);
  auto loan = segments->take(kMegabyte);
  ASSERT_NE(loan, nullptr);
  std::byte* const memory = loan->segment().data();
  const auto bytes = segments->keep(std::move(loan));
  segments.reset();
  memory[0] = std::byte{'a'};
  EXPECT_EQ(memory[0], std::byte{'a'});
}

}  // namespace
}  // namespace brigade::rpc
