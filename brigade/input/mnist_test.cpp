#include "brigade/input/mnist.h"

#include <gtest/gtest.h>

namespace brigade::input {
namespace {

TEST(FashionMnist, LoadsTheTestSplit) {
  const auto dataset = fashion_mnist(kFashionMnistDirectory, Split::kTest);
  EXPECT_EQ(dataset.cardinality(), 10'000);
  auto batch = dataset.shuffle(100).batch(256).iterator().next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->features.sizes(), (std::vector<std::int64_t>{256, 1, 28, 28}));
}

}  // namespace
}  // namespace brigade::input
