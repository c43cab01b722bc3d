#include "brigade/rpc/caller_segments.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>

#include "brigade/base/error.h"
#include "brigade/base/testing/error_code.h"

namespace brigade::rpc {
namespace {

using base::testing::code_of;

constexpr std::size_t kBytes = 100'000;

CallerSegments::Time later() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(1);
}

TEST(CallerSegments, AreMappedOnceAndForgottenWhenNobodyUsesThem) {
  CallerSegments segments(10 * kBytes);
  base::SharedSegment made = base::SharedSegment::make(kBytes);
  made.data()[0] = std::byte{'a'};
  const base::SegmentHandle handle = made.handle();
  auto first = segments.open(handle, kBytes);
  EXPECT_EQ(first->data()[0], std::byte{'a'});
  EXPECT_EQ(segments.open(handle, kBytes), first);
  made = base::SharedSegment();  // its process has ended
  EXPECT_EQ(segments.open(handle, kBytes)->data()[0], std::byte{'a'});
  segments.forget_unused(later());
  EXPECT_EQ(segments.size(), 1u) << "a call uses it";
  first.reset();
  segments.forget_unused(std::chrono::steady_clock::now() - std::chrono::seconds(60));
  EXPECT_EQ(segments.size(), 1u) << "its caller may come again";
  segments.forget_unused(later());
  EXPECT_EQ(segments.size(), 0u);
  EXPECT_THROW(segments.open(handle, kBytes), Error) << "it is freed";
}

TEST(CallerSegments, WhatIsNotTheCallersIsNotFound) {
  CallerSegments segments(10 * kBytes);
  const base::SharedSegment made = base::SharedSegment::make(kBytes);
  const auto opened = segments.open(made.handle(), kBytes);
  base::SegmentHandle forged = made.handle();
  ++forged.nonce[1];
  EXPECT_THROW(segments.open(forged, kBytes), Error);
  EXPECT_THROW(segments.open(made.handle(), kBytes - 1000), Error);
  EXPECT_EQ(segments.size(), 1u);
}

TEST(CallerSegments, TogetherHaveALimit) {
  CallerSegments segments(2 * kBytes);
  const base::SharedSegment made[] = {
      base::SharedSegment::make(kBytes), base::SharedSegment::make(kBytes),
      base::SharedSegment::make(kBytes), base::SharedSegment::make(3 * kBytes)};
  auto first = segments.open(made[0].handle(), kBytes);
  const auto second = segments.open(made[1].handle(), kBytes);
  EXPECT_EQ(code_of([&] { segments.open(made[2].handle(), kBytes); }),
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of([&] { segments.open(made[3].handle(), 3 * kBytes); }), ErrorCode::kUnavailable)
      << "there will never be room for it";
  first.reset();
  EXPECT_NO_THROW(segments.open(made[2].handle(), kBytes)) << "the first makes room";
  EXPECT_EQ(segments.size(), 2u);
}

}  // namespace
}  // namespace brigade::rpc
