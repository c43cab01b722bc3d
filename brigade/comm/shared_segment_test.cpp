#include "brigade/comm/shared_segment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "brigade/base/error.h"

namespace brigade::comm {
namespace {

TEST(SharedSegment, IsTheSameMemoryForWhoeverOpensIt) {
  const SharedSegment made = SharedSegment::make(10'000);
  const SharedSegment opened = SharedSegment::open(getpid(), made.descriptor(), 10'000);
  ASSERT_NE(made.data(), opened.data());
  EXPECT_TRUE(std::all_of(opened.data(), opened.data() + 10'000,
                          [](std::byte byte) { return byte == std::byte{0}; }));
  made.data()[9'999] = std::byte{7};
  EXPECT_EQ(opened.data()[9'999], std::byte{7});
  EXPECT_EQ(opened.descriptor(), -1);
}

TEST(SharedSegment, StaysMappedAndCannotBeOpenedOnceItsDescriptorIsClosed) {
  SharedSegment made = SharedSegment::make(100);
  const int descriptor = made.descriptor();
  made.close_descriptor();
  made.data()[0] = std::byte{1};
  EXPECT_THROW(SharedSegment::open(getpid(), descriptor, 100), Error);
}

TEST(SharedSegment, OfAnotherSizeIsRefused) {
  const SharedSegment made = SharedSegment::make(100);
  EXPECT_THROW(SharedSegment::open(getpid(), made.descriptor(), 101), Error);
}

TEST(SharedSegment, MovesItsMemory) {
  SharedSegment first = SharedSegment::make(100);
  std::byte* const data = first.data();
  const SharedSegment second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace brigade::comm
