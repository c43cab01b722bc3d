#include "brigade/device/stream.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace brigade::device {
namespace {

TEST(Stream, IsANoOpOnTheCpu) {
  const c10::Stream stream = make_stream(Device());
  EXPECT_TRUE(stream.device_type() == c10::kCPU);
  const StreamScope scope(stream);
  EXPECT_EQ(at::ones({3}).sum().item<float>(), 3.0F);
  synchronize(stream);
}

}  // namespace
}  // namespace brigade::device
