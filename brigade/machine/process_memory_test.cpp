#include "brigade/machine/process_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace brigade::machine {
namespace {

TEST(ProcessMemory, GrowsWithWhatIsTouched) {
  const ProcessMemory before = process_memory();
  ASSERT_GT(before.resident, 0);
  constexpr std::int64_t kTouched = 64 << 20;
  const std::vector<char> touched(kTouched, 1);
  const ProcessMemory after = process_memory();
  EXPECT_GT(after.resident, before.resident + kTouched / 2 * touched.front());
  EXPECT_GE(after.peak, after.resident);
  EXPECT_GE(machine_memory(), after.resident);
}

TEST(ProcessMemory, IsZeroWhereNothingIsReported) {
  const ProcessMemory unknown = process_memory("/nonexistent");
  EXPECT_EQ(unknown.resident, 0);
  EXPECT_EQ(unknown.peak, 0);
}

}  // namespace
}  // namespace brigade::machine
