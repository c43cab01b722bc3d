#include "brigade/device/dtypes.h"

#include <gtest/gtest.h>

namespace brigade::device {
namespace {

TEST(FileDtypes, HaveTheSizesOfLibtorch) {
  for (const FileDtype& dtype : file_dtypes()) {
    EXPECT_EQ(dtype.bytes, static_cast<std::int64_t>(c10::elementSize(dtype.type))) << dtype.name;
  }
}

TEST(FileDtypes, AreFoundByTypeAndByName) {
  for (const FileDtype& dtype : file_dtypes()) {
    EXPECT_EQ(file_dtype_of(dtype.type)->name, dtype.name);
    EXPECT_EQ(file_dtype_named(dtype.safetensors)->type, dtype.type);
  }
  EXPECT_FALSE(file_dtype_of(at::kComplexFloat));
  EXPECT_FALSE(file_dtype_named("C64"));
}

// Existing files must stay readable: this list may only grow.
TEST(FileDtypes, KeepTheirIndices) {
  EXPECT_EQ(file_dtype_names(),
            "float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool");
}

}  // namespace
}  // namespace brigade::device
