#include "brigade/device/peer_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace brigade::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Two CPUs, and two logical GPUs on each of two nonexistent cards.
std::vector<Device> devices() {
  auto made = available_devices({.logical_cpus = 2, .allow_oversubscription = true}, Hardware{});
  for (int index = 0; index < 4; ++index) {
    Device gpu;
    gpu.name = {.type = machine::DeviceType::kGpu, .index = index};
    gpu.torch_device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(100 + index / 2));
    made.push_back(gpu);
  }
  return made;
}

TEST(Reach, IsWrittenAsAWord) {
  EXPECT_EQ((std::set<std::string_view>{to_string(Reach::kSame), to_string(Reach::kPeer),
                                        to_string(Reach::kHost)}),
            (std::set<std::string_view>{"same", "peer", "host"}));
}

TEST(Reach, IsTheSameAmongCpusAndWithinACard) {
  const auto all = devices();
  EXPECT_EQ(reach(all[0], all[0]), Reach::kSame);
  EXPECT_EQ(reach(all[0], all[1]), Reach::kSame);
  EXPECT_EQ(reach(all[2], all[3]), Reach::kSame);
}

TEST(Reach, GoesThroughTheHostBetweenCpuAndGpu) {
  const auto all = devices();
  EXPECT_EQ(reach(all[0], all[2]), Reach::kHost);
  EXPECT_EQ(reach(all[4], all[1]), Reach::kHost);
}

TEST(Reach, GoesThroughTheHostToACardThatTheDriverDoesNotKnow) {
  const auto all = devices();
  EXPECT_EQ(reach(all[2], all[4]), Reach::kHost);
}

TEST(ReachTable, HasALineForEachDevice) {
  const auto all = devices();
  const auto table = reach_table(all);
  ASSERT_EQ(table.size(), all.size());
  for (std::size_t from = 0; from < all.size(); ++from) {
    ASSERT_EQ(table[from].size(), all.size());
    for (std::size_t to = 0; to < all.size(); ++to)
      EXPECT_EQ(table[from][to], reach(all[from], all[to]));
  }
  EXPECT_TRUE(reach_table({}).empty());
}

TEST(ControllerWarning, NamesTheTowersWithoutDirectAccess) {
  const auto all = devices();
  EXPECT_THAT(
      controller_warning(all[2], {all[3], all[4], all[5]}),
      AllOf(HasSubstr("controller gpu:0"), HasSubstr("gpu:2, gpu:3"), Not(HasSubstr("gpu:1"))));
}

TEST(ControllerWarning, IsEmptyWithDirectAccess) {
  const auto all = devices();
  EXPECT_EQ(controller_warning(all[0], {all[2], all[4]}), "")
      << "a CPU is reached through the host";
  EXPECT_EQ(controller_warning(all[2], {all[2], all[3]}), "") << "one card";
  EXPECT_EQ(controller_warning(all[2], {all[0], all[1]}), "") << "towers on CPUs";
  EXPECT_EQ(controller_warning(all[2], {}), "");
}

}  // namespace
}  // namespace brigade::device
