#include "brigade/launch/resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brigade::launch {
namespace {

using machine::CoreSet;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Three physical cores of two threads each.
machine::Topology six_threads() {
  return {.processor = "test",
          .cores = CoreSet::parse("0-5"),
          .physical_cores = {CoreSet({0, 3}), CoreSet({1, 4}), CoreSet({2, 5})},
          .cpu_limit = std::nullopt};
}

std::vector<std::string> cores_of(const std::vector<ResourceSlice>& slices) {
  std::vector<std::string> texts;
  for (const ResourceSlice& slice : slices) texts.push_back(slice.cores.to_string());
  return texts;
}

std::vector<std::string> gpus_of(const std::vector<ResourceSlice>& slices) {
  std::vector<std::string> texts;
  for (const ResourceSlice& slice : slices) texts.push_back(slice.gpus.value_or("unset"));
  return texts;
}

TEST(Resources, ThreadsOfOnePhysicalCoreStayTogether) {
  EXPECT_THAT(cores_of(divide_resources(six_threads(), {}, 3)), ElementsAre("0,3", "1,4", "2,5"));
  EXPECT_THAT(cores_of(divide_resources(six_threads(), {}, 1)), ElementsAre("0-5"));
}

TEST(Resources, SlicesOfCoresDifferByOneAtMost) {
  std::size_t sum = 0;
  for (const ResourceSlice& slice : divide_resources(six_threads(), {}, 4)) {
    EXPECT_GE(slice.cores.size(), 1u);
    EXPECT_LE(slice.cores.size(), 2u);
    sum += slice.cores.size();
  }
  EXPECT_EQ(sum, 6u);
}

TEST(Resources, CoresAreNotDividedWhereThereAreTooFewOrPinningIsWrong) {
  EXPECT_THAT(cores_of(divide_resources(six_threads(), {}, 7)), testing::Each(""));
  machine::Topology limited = six_threads();
  limited.cpu_limit = 2.0;
  EXPECT_THAT(cores_of(divide_resources(limited, {}, 2)), testing::Each(""));
}

TEST(Resources, GpusAreDividedByNameOrSharedRoundRobin) {
  EXPECT_THAT(gpus_of(divide_resources({}, {{"4", "5", "6", "7"}}, 2)), ElementsAre("4,5", "6,7"));
  EXPECT_THAT(gpus_of(divide_resources({}, {{"4", "5"}}, 3)), ElementsAre("4", "5", "4"));
  EXPECT_THAT(gpus_of(divide_resources({}, std::nullopt, 2)), ElementsAre("unset", "unset"));
}

TEST(Resources, GpusCanBeDividedAmongTheFirstProcessesOnly) {
  EXPECT_THAT(gpus_of(divide_resources_for(2, {}, {{"4", "5", "6"}}, 4)),
              ElementsAre("4", "5,6", "", ""));
  EXPECT_THAT(gpus_of(divide_resources_for(1, {}, std::nullopt, 2)), ElementsAre("unset", "unset"));
  EXPECT_THAT(cores_of(divide_resources_for(1, six_threads(), {}, 7)), testing::Each(""));
}

TEST(Resources, ASharedCardIsNamedWithItsUsers) {
  EXPECT_THAT(shared_cards(divide_resources({}, {{"4", "5"}}, 3)),
              ElementsAre(HasSubstr("GPU 4 is shared by the processes 0, 2")));
  EXPECT_THAT(shared_cards(divide_resources({}, {{"4", "5"}}, 2)), IsEmpty());
}

}  // namespace
}  // namespace brigade::launch
