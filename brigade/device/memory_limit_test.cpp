#include "brigade/device/memory_limit.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "brigade/base/error.h"

namespace brigade::device {
namespace {

TEST(MemoryLimit, IsANumberAboveZeroAndUpToOne) {
  EXPECT_EQ(parse_memory_fraction("0.25"), 0.25);
  EXPECT_EQ(parse_memory_fraction("1"), 1.0);
  for (const char* text : {"", "0", "-0.5", "1.01", "nan", "inf", "half", "0.5x", " 0.5"})
    EXPECT_THROW(parse_memory_fraction(text), Error) << text;
}

TEST(MemoryLimit, DoesNotAffectCpus) {
  const auto cpus =
      available_devices({.logical_cpus = 2, .allow_oversubscription = true}, Hardware{});
  ::setenv(kGpuMemoryVariable, "nonsense", 1);
  EXPECT_NO_THROW(limit_gpu_memory(cpus));
  ::unsetenv(kGpuMemoryVariable);
}

// A GPU that does not exist: without the variable it is not accessed.
TEST(MemoryLimit, IsAppliedToGpus) {
  Device gpu;
  gpu.name = {.type = machine::DeviceType::kGpu, .index = 0};
  gpu.torch_device = c10::Device(c10::kCUDA, 100);
  EXPECT_NO_THROW(limit_gpu_memory({gpu}));
  ::setenv(kGpuMemoryVariable, "nonsense", 1);
  EXPECT_THROW(limit_gpu_memory({gpu}), Error);
  ::unsetenv(kGpuMemoryVariable);
}

}  // namespace
}  // namespace brigade::device
