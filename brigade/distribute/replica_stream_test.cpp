#include "brigade/distribute/replica_stream.h"

#include <gtest/gtest.h>

namespace brigade::distribute {
namespace {

TEST(ReplicaStream, DoesNothingOnCpu) {
  device::Device cpu;
  cpu.name.type = machine::DeviceType::kCpu;
  ReplicaStream stream(cpu);
  stream.fork();
  { const ReplicaStream::Scope scope(stream); }
  EXPECT_NO_THROW(stream.join());
}

}  // namespace
}  // namespace brigade::distribute
