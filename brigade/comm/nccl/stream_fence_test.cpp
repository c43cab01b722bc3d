#include "brigade/comm/nccl/stream_fence.h"

#include <gtest/gtest.h>

namespace brigade::comm {
namespace {

TEST(StreamFence, DoesNothingOnCpu) {
  StreamFence fence;
  const c10::Device cpu(c10::kCPU);
  EXPECT_NO_THROW(fence.wait(cpu));  // also before `record`
  EXPECT_NO_THROW(fence.record(cpu));
  EXPECT_NO_THROW(fence.record(cpu));
  EXPECT_NO_THROW(fence.wait(cpu));
}

}  // namespace
}  // namespace brigade::comm
