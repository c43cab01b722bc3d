#include "brigade/ps/store/record_parts.h"

#include <gtest/gtest.h>

namespace brigade::ps {
namespace {

using Parts = std::vector<RecordPart>;

TEST(RecordParts, AreFullButNotMore) {
  EXPECT_EQ(divide_by_bytes(std::vector<std::uint64_t>{4, 6, 1, 9, 1}, 10),
            (Parts{{0, 2}, {2, 4}, {4, 5}}));
  EXPECT_EQ(divide_by_bytes(std::vector<std::uint64_t>{1, 2}, 10), (Parts{{0, 2}}));
}

TEST(RecordParts, ALongElementIsAlone) {
  EXPECT_EQ(divide_by_bytes(std::vector<std::uint64_t>{1, 50, 1, 1}, 10),
            (Parts{{0, 1}, {1, 2}, {2, 4}}));
}

TEST(RecordParts, NothingIsOneEmptyPart) {
  EXPECT_EQ(divide_by_bytes({}, 10), (Parts{{0, 0}}));
}

}  // namespace
}  // namespace brigade::ps
