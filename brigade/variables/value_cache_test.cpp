#include "brigade/variables/value_cache.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace brigade::variables {
namespace {

const c10::Device kAway(c10::kMeta);

TEST(ValueCache, CopiesOncePerDeviceUntilTheValueChanges) {
  ValueCache cache;
  at::Tensor value = at::ones({2});
  EXPECT_TRUE(cache.get(value, c10::kCPU).is_same(value));
  const at::Tensor copy = cache.get(value, kAway);
  EXPECT_TRUE(cache.get(value, kAway).is_same(copy));
  value.add_(1);
  EXPECT_FALSE(cache.get(value, kAway).is_same(copy));
}

TEST(ValueCache, CopiesAgainForGradientsThatACopyDoesNotRecord) {
  ValueCache cache;
  const at::Tensor value = at::ones({2}).requires_grad_();
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(cache.get(value, kAway).requires_grad());
  }
  const at::Tensor recording = cache.get(value, kAway);
  EXPECT_TRUE(recording.requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(cache.get(value, kAway).is_same(recording));
}

TEST(ValueCache, DistinguishesComponents) {
  ValueCache cache;
  const at::Tensor first = at::ones({2});
  const at::Tensor second = at::ones({3});
  EXPECT_EQ(cache.get(first, kAway).numel(), 2);
  EXPECT_EQ(cache.get(second, kAway).numel(), 3);
}

}  // namespace
}  // namespace brigade::variables
