#include "brigade/distribute/input/epoch_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/data/testing/warnings.h"

namespace brigade::distribute {
namespace {

using data::testing::warnings_of;

const data::PipelineDescription kShuffled{{"range(8)"}, {"shuffle(8)"}};

TEST(EpochCounter, NewIteratorsGetEpochsAfterTheRecordedOne) {
  EpochCounter epochs;
  EXPECT_EQ(epochs.take(), 0U);
  epochs.record_epoch(4);
  EXPECT_EQ(epochs.take(), 5U);
  epochs.record_epoch(2);
  EXPECT_EQ(epochs.take(), 6U);
}

TEST(EpochCounters, TheSameDatasetHasOneCounter) {
  EpochCounters counters;
  const auto dataset = std::make_shared<int>();
  const auto other = std::make_shared<int>();
  EXPECT_EQ(counters.of(dataset, kShuffled), counters.of(dataset, kShuffled));
  EXPECT_NE(counters.of(dataset, kShuffled), counters.of(other, kShuffled));
}

TEST(EpochCounters, WarnsOnceOfAShuffledDatasetThatIsCreatedAgain) {
  EpochCounters counters;
  const auto distribute_again = [&] { counters.of(std::make_shared<int>(), kShuffled)->take(); };
  EXPECT_THAT(warnings_of(distribute_again), testing::IsEmpty());
  EXPECT_THAT(warnings_of(distribute_again),
              testing::ElementsAre(testing::AllOf(testing::HasSubstr("range(8) | shuffle(8)"),
                                                  testing::HasSubstr("before the loop"))));
  EXPECT_THAT(warnings_of(distribute_again), testing::IsEmpty()) << "once";
}

TEST(EpochCounters, DatasetsWithoutAShuffleAreNotWarnedOf) {
  EpochCounters counters;
  EXPECT_THAT(warnings_of([&] {
                for (int i = 0; i < 3; ++i) counters.of(std::make_shared<int>(), {{"range(8)"}});
              }),
              testing::IsEmpty());
}

}  // namespace
}  // namespace brigade::distribute
