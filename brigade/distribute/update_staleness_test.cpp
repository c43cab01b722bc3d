#include "brigade/distribute/update_staleness.h"

#include <gtest/gtest.h>

namespace brigade::distribute {
namespace {

UpdateStaleness staleness_of(std::initializer_list<std::int64_t> updates) {
  UpdateStaleness staleness;
  for (const std::int64_t each : updates) staleness.count(each);
  return staleness;
}

TEST(UpdateStaleness, IsCounted) {
  const UpdateStaleness staleness = staleness_of({0, 3, 0, 1});
  EXPECT_EQ(staleness.total(), 4);
  EXPECT_EQ(staleness.mean(), 1);
  EXPECT_EQ(staleness.max(), 3);
  EXPECT_EQ(staleness.updates.at(0), 2);
}

TEST(UpdateStaleness, OfNoUpdatesIsZero) {
  EXPECT_EQ(UpdateStaleness{}.total(), 0);
  EXPECT_EQ(UpdateStaleness{}.mean(), 0);
  EXPECT_EQ(UpdateStaleness{}.max(), 0);
}

TEST(UpdateStaleness, OfTheUpdatesSinceACopyWasMade) {
  UpdateStaleness staleness = staleness_of({0, 3, 0});
  const UpdateStaleness earlier = staleness;
  EXPECT_EQ(staleness.since(earlier).total(), 0);
  for (const std::int64_t each : {0, 2}) staleness.count(each);
  EXPECT_EQ(staleness.since(earlier), staleness_of({0, 2}));
  EXPECT_EQ(staleness.since({}), staleness);
}

}  // namespace
}  // namespace brigade::distribute
