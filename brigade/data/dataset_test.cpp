#include "brigade/data/dataset.h"

#include <gtest/gtest.h>

#include "brigade/data/source.h"

namespace brigade::data {
namespace {

TEST(Dataset, RunsAChainOfEveryTransform) {
  const auto dataset = range(20)
                           .shuffle(7)
                           .map([](std::int64_t x, ElementContext& c) { return x + 0 * c.index; },
                                {.parallelism = 3})
                           .repeat(2)
                           .batch(6)
                           .prefetch(2);
  std::vector<std::int64_t> seen;
  for (const auto& batch : dataset) seen.insert(seen.end(), batch.begin(), batch.end());
  std::sort(seen.begin(), seen.end());
  ASSERT_EQ(seen.size(), 40U);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(seen[i], static_cast<std::int64_t>(i / 2));
}

}  // namespace
}  // namespace brigade::data
