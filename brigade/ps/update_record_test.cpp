#include "brigade/ps/update_record.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::ps {
namespace {

UpdateRecord sample() {
  io::StateTree header;
  header["kind"] = "push";
  header["number"] = 7;
  return {.header = header,
          .tensors = {{"w", at::arange(6, at::kFloat).view({2, 3})},
                      {"empty", at::zeros({0, 4}, at::kDouble)},
                      {"scalar", at::ones({}, at::kLong)}}};
}

TEST(UpdateRecord, IsReadAsItWasWritten) {
  const UpdateRecord record = decode_update(encode_update(sample()));
  EXPECT_EQ(record.header, sample().header);
  ASSERT_EQ(record.tensors.size(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(record.tensors[i].name, sample().tensors[i].name);
    EXPECT_EQ(record.tensors[i].tensor.dtype(), sample().tensors[i].tensor.dtype());
    EXPECT_TRUE(at::equal(record.tensors[i].tensor, sample().tensors[i].tensor));
  }
}

TEST(UpdateRecord, ATensorThatIsNotContiguousIsWrittenInItsOrder) {
  const at::Tensor transposed = at::arange(6, at::kFloat).view({2, 3}).t();
  const UpdateRecord record =
      decode_update(encode_update({.header = {}, .tensors = {{"w", transposed}}}));
  EXPECT_TRUE(at::equal(record.tensors[0].tensor, transposed));
}

TEST(UpdateRecord, EveryTruncationIsDataLoss) {
  const std::string bytes = encode_update(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    try {
      decode_update(std::string_view(bytes).substr(0, size));
      FAIL() << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << size;
    }
  }
  EXPECT_THROW(decode_update(bytes + "x"), Error);
}

TEST(UpdateRecord, AChangedByteIsReadOrDataLoss) {
  const std::string bytes = encode_update(sample());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const char change : {'\x00', '\x7f', '9', '-'}) {
      std::string changed = bytes;
      changed[i] = change;
      try {
        decode_update(changed);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << i << ": " << error.what();
      }
    }
  }
}

TEST(UpdateRecord, RejectsWhatFilesDoNotHave) {
  const at::Tensor complex = at::ones({2}, at::kComplexFloat);
  EXPECT_THROW(encode_update({.header = {}, .tensors = {{"c", complex}}}), Error);
  const at::Tensor sparse = at::ones({2}).to_sparse();
  EXPECT_THROW(encode_update({.header = {}, .tensors = {{"s", sparse}}}), Error);
  EXPECT_THROW(encode_update({.header = {}, .tensors = {{"u", at::Tensor()}}}), Error);
}

}  // namespace
}  // namespace brigade::ps
