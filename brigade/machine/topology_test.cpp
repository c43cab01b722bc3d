#include "brigade/machine/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "brigade/machine/affinity.h"

namespace brigade::machine {
namespace {

Topology two_by_two(std::optional<double> limit = std::nullopt) {
  return {.processor = "test",
          .cores = CoreSet({0, 1, 2, 3}),
          .physical_cores = {CoreSet({0, 1}), CoreSet({2, 3})},
          .cpu_limit = limit};
}

TEST(Topology, HandsOutPhysicalCoresFirst) {
  EXPECT_EQ(two_by_two().cores_by_distance(), (std::vector<int>{0, 2, 1, 3}));
}

TEST(Topology, CountsWholeCoresWithinTheTimeLimit) {
  EXPECT_EQ(two_by_two().usable_cores(), 4);
  EXPECT_EQ(two_by_two(2.9).usable_cores(), 2);
  EXPECT_EQ(two_by_two(0.5).usable_cores(), 1);
  EXPECT_EQ(two_by_two(64.0).usable_cores(), 4);
}

TEST(Topology, PinsOnlyWhereTheTimeLimitDoesNotBite) {
  EXPECT_TRUE(two_by_two().may_pin());
  EXPECT_TRUE(two_by_two(4.0).may_pin());
  EXPECT_FALSE(two_by_two(2.0).may_pin());
}

TEST(Topology, FindsThisMachine) {
  const Topology topology = discover_topology();
  EXPECT_FALSE(topology.processor.empty());
  EXPECT_FALSE(topology.cores.empty());
  EXPECT_GE(topology.usable_cores(), 1);
  CoreSet seen(topology.cores_by_distance());
  EXPECT_EQ(seen, topology.cores);
  for (const auto& group : topology.physical_cores)
    EXPECT_EQ(group.intersection(topology.cores), group);
}

TEST(Topology, SaysTheSameOnAPinnedThread) {
  const Topology outside = discover_topology();
  CoreSet inside;
  std::thread([&] {
    const AffinityScope scope(CoreSet({outside.cores.cores().back()}));
    inside = discover_topology().cores;
  }).join();
  EXPECT_EQ(inside, outside.cores);
}

TEST(ProcessorName, ReadsTheFirstModel) {
  const auto file = std::filesystem::temp_directory_path() / "brigade_cpuinfo_test";
  std::ofstream(file)
      << "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9B14\n\nmodel name\t: other\n";
  EXPECT_EQ(processor_name(file), "AMD EPYC 9B14");
  std::filesystem::remove(file);
  EXPECT_EQ(processor_name(file), "unknown processor");
}

TEST(Topology, KnowsTheCoresNearAPciDeviceIfTheSystemDoes) {
  const auto devices =
      std::filesystem::path(testing::TempDir()) / ("pci" + std::to_string(::getpid()));
  const auto write = [&](std::string_view list) {
    std::filesystem::create_directories(devices / "0000:65:00.0");
    std::ofstream(devices / "0000:65:00.0" / "local_cpulist") << list;
    return cores_near_pci_device("0000:65:00.0", devices);
  };
  EXPECT_EQ(write("2-3,8\n"), CoreSet({2, 3, 8}));
  EXPECT_TRUE(write("").empty());
  EXPECT_TRUE(write("all of them\n").empty());
  EXPECT_TRUE(cores_near_pci_device("0000:66:00.0", devices).empty());
  EXPECT_TRUE(cores_near_pci_device("", devices).empty());
  std::filesystem::remove_all(devices);
}

}  // namespace
}  // namespace brigade::machine
