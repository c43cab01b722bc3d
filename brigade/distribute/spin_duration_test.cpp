#include "brigade/distribute/spin_duration.h"

#include <gtest/gtest.h>

#include "brigade/distribute/testing/fixtures.h"
#include "brigade/machine/topology.h"

namespace brigade::distribute {
namespace {

TEST(SpinDuration, ReplicasPollOnlyIfEachHasACore) {
  const int cores = device::discover_hardware().topology.usable_cores();
  EXPECT_GT(spin_duration(plain_cpus(1, 1)).count(), 0);
  EXPECT_GT(spin_duration(plain_cpus(cores, 1)).count(), 0);
  EXPECT_EQ(spin_duration(plain_cpus(cores + 1, 1)).count(), 0);
  EXPECT_EQ(spin_duration(plain_cpus(1, cores + 1)).count(), 0);
}

}  // namespace
}  // namespace brigade::distribute
