#include "brigade/device/host_copies.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <vector>

#include "brigade/device/testing/fake_device.h"

namespace brigade::device {
namespace {

using testing::FakeDevice;

TEST(HostCopies, AreQueuedAndWaitedForOnce) {
  FakeDevice& card = FakeDevice::get();
  std::vector<at::Tensor> originals;
  for (int i = 0; i < 5; ++i) {
    originals.push_back(
        at::empty({4, 3}, at::TensorOptions(at::kFloat).device(FakeDevice::device())).fill_(i));
  }
  const int waits = card.host_waits();
  HostCopies copies;
  std::vector<at::Tensor> there;
  for (const at::Tensor& tensor : originals) there.push_back(copies.queue(tensor));
  there.push_back(copies.queue(originals[3].t()));
  EXPECT_EQ(card.host_waits(), waits);
  copies.wait();
  EXPECT_EQ(card.host_waits(), waits + 1);
  for (const at::Tensor& tensor : originals) tensor.fill_(-1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(there[i].is_cpu());
    EXPECT_EQ(there[i].min().item<float>(), i);
    EXPECT_EQ(there[i].max().item<float>(), i);
  }
  EXPECT_TRUE(there.back().is_contiguous());
  EXPECT_EQ(there.back().sizes(), at::IntArrayRef({3, 4}));
}

TEST(HostCopies, WithoutAnyNothingIsWaitedFor) {
  const int waits = FakeDevice::get().host_waits();
  HostCopies().wait();
  EXPECT_EQ(FakeDevice::get().host_waits(), waits);
}

}  // namespace
}  // namespace brigade::device
