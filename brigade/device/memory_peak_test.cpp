#include "brigade/device/memory_peak.h"

#include <gtest/gtest.h>

#include <vector>

namespace brigade::device {
namespace {

TEST(GpuMemoryPeak, IsOfGpusAlone) {
  EXPECT_EQ(gpu_memory_peak({}), std::nullopt);
  EXPECT_EQ(gpu_memory_peak(std::vector<Device>(2)), std::nullopt);
}

}  // namespace
}  // namespace brigade::device
