#include "brigade/ps/store/update_record.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

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

TEST(UpdateRecord, InPiecesItSharesTheTensorsMemory) {
  UpdateRecord record = sample();
  const io::BytePieces pieces = encode_update_in_pieces(record);
  EXPECT_EQ(pieces.joined(), encode_update(record));
  ASSERT_EQ(pieces.pieces().size(), 3u) << "the text, w and the scalar";
  EXPECT_EQ(static_cast<const void*>(pieces.pieces()[1].bytes.data()),
            record.tensors[0].tensor.const_data_ptr());
  const io::BytePieces transposed =
      encode_update_in_pieces({.header = {}, .tensors = {{"t", record.tensors[0].tensor.t()}}});
  record.tensors.clear();
  const at::Tensor w = decode_update(pieces.joined()).tensors[0].tensor;
  EXPECT_TRUE(at::equal(w, sample().tensors[0].tensor)) << "it keeps the memory";
  EXPECT_TRUE(at::equal(decode_update(transposed.joined()).tensors[0].tensor, w.t()));
}

TEST(UpdateRecord, TensorsShareTheMemoryOfAlignedBytes) {
  const std::string bytes = encode_update(
      {.header = {},
       .tensors = {{"w", at::arange(16, at::kFloat)}, {"v", at::ones({3})}, {"u", at::ones({5})}}});
  struct alignas(64) Line {
    char bytes[64];
  };
  const auto memory = std::make_shared<std::vector<Line>>(bytes.size() / 64 + 1);
  char* const begin = memory->front().bytes;
  std::memcpy(begin, bytes.data(), bytes.size());
  const auto is_shared = [&](const at::Tensor& tensor) {
    const auto* const data = static_cast<const char*>(tensor.const_data_ptr());
    return data >= begin && data < begin + bytes.size();
  };
  const UpdateRecord record =
      decode_update(io::SharedBytes{.bytes = {begin, bytes.size()}, .owner = memory});
  EXPECT_TRUE(is_shared(record.tensors[0].tensor));
  EXPECT_TRUE(is_shared(record.tensors[1].tensor)) << "64 bytes after the first";
  EXPECT_FALSE(is_shared(record.tensors[2].tensor)) << "12 bytes after the second";
  EXPECT_TRUE(at::equal(record.tensors[0].tensor, at::arange(16, at::kFloat)));
  EXPECT_TRUE(at::equal(record.tensors[2].tensor, at::ones({5})));
  EXPECT_EQ(memory.use_count(), 3) << "w, v and this test";
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
