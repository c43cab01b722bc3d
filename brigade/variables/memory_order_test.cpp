#include "brigade/variables/memory_order.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

namespace brigade::variables {
namespace {

constexpr auto kContiguous = at::MemoryFormat::Contiguous;
constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
using Shape = std::vector<std::int64_t>;

at::Tensor counted(const Shape& shape) {
  return at::arange(c10::multiply_integers(shape), at::kFloat).view(shape);
}

TEST(MemoryOrder, IsContiguousWhereNothingWouldBePermuted) {
  EXPECT_EQ(effective_format(Shape{2, 3, 4, 5}, kChannelsLast), kChannelsLast);
  EXPECT_EQ(effective_format(Shape{2, 3, 4, 5}, kContiguous), kContiguous);
  EXPECT_EQ(effective_format(Shape{1, 2, 1, 2}, kChannelsLast), kChannelsLast);
  for (const Shape& shape : {Shape{2, 3, 1, 1}, Shape{2, 1, 4, 5}, Shape{2, 0, 4, 5}, Shape{6}}) {
    EXPECT_EQ(effective_format(shape, kChannelsLast), kContiguous) << at::IntArrayRef(shape);
    if (shape.size() != 4 || counted(shape).numel() == 0) continue;
    EXPECT_TRUE(counted(shape).is_contiguous(kChannelsLast)) << at::IntArrayRef(shape);
  }
}

TEST(MemoryOrder, HasTheElementsAsTheyAreInMemory) {
  const at::Tensor value = counted({2, 3, 4, 5});
  const at::Tensor last = value.contiguous(kChannelsLast);
  const at::Tensor in_memory = in_memory_order(last, kChannelsLast);
  EXPECT_TRUE(in_memory.is_contiguous());
  EXPECT_EQ(in_memory.const_data_ptr(), last.const_data_ptr()) << "a copy";
  EXPECT_EQ(in_memory.sizes(), shape_in_memory(value.sizes(), kChannelsLast));
  EXPECT_TRUE(in_memory.equal(value.permute({0, 2, 3, 1})));
  EXPECT_TRUE(in_memory_order(value, kChannelsLast).equal(in_memory)) << "converted";
  EXPECT_TRUE(in_memory_order(value, kContiguous).is_same(value));
}

TEST(MemoryOrder, IsUndone) {
  for (const auto format : {kContiguous, kChannelsLast}) {
    for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{3, 3, 3, 3}}) {
      const at::Tensor value = counted(shape);
      const at::Tensor in_memory = in_memory_order(value, format);
      for (const at::Tensor& elements : {in_memory, in_memory.view(-1)}) {
        const at::Tensor again = from_memory_order(elements, shape, format);
        EXPECT_TRUE(again.equal(value));
        EXPECT_TRUE(again.is_contiguous(format));
        EXPECT_EQ(again.const_data_ptr(), in_memory.const_data_ptr());
      }
    }
  }
}

}  // namespace
}  // namespace brigade::variables
