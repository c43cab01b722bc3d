#include "brigade/input/tensor_codec.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/base/random.h"

namespace brigade::data {
namespace {

ErrorCode code_of_decode(const std::string& bytes) {
  try {
    decode<at::Tensor>(bytes);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(TensorCodec, RoundTripsTensorsOfAllTypesAndShapes) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                    at::kInt, at::kShort, at::kChar, at::kByte, at::kBool}) {
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{2, 3}, {6}, {}, {0, 4}, {2, 0}}) {
      const at::Tensor tensor = at::ones(shape).to(type);
      const at::Tensor back = decode<at::Tensor>(encode(tensor));
      ASSERT_EQ(back.scalar_type(), type);
      ASSERT_EQ(back.sizes(), tensor.sizes());
      EXPECT_TRUE(back.equal(tensor));
    }
  }
}

TEST(TensorCodec, WritesStridedTensors) {
  const at::Tensor turned = at::arange(6).reshape({2, 3}).t();
  EXPECT_EQ(encode(turned), encode(turned.contiguous()));
  EXPECT_TRUE(decode<at::Tensor>(encode(turned)).equal(turned));
}

TEST(TensorCodec, RoundTripsExamplesAndBatches) {
  const input::LabeledExample example{at::arange(4), 7};
  const auto back = decode<input::LabeledExample>(encode(example));
  EXPECT_EQ(back.label, 7);
  EXPECT_TRUE(back.features.equal(example.features));
  const input::LabeledBatch batch{at::ones({2, 3}), at::arange(2)};
  const auto batch_back = decode<input::LabeledBatch>(encode(batch));
  EXPECT_TRUE(batch_back.features.equal(batch.features));
  EXPECT_TRUE(batch_back.labels.equal(batch.labels));
  EXPECT_EQ((Codec<std::pair<at::Tensor, input::LabeledBatch>>::name()),
            "tuple<tensor, labeled_batch>");
}

TEST(TensorCodec, RefusesUnsupportedTensors) {
  EXPECT_THROW(encode(at::Tensor()), Error);
  EXPECT_THROW(encode(at::ones({2, 2}).to_sparse()), Error);
  EXPECT_THROW(encode(at::zeros({2}, at::kComplexFloat)), Error);
}

TEST(TensorCodec, RefusesShapesLargerThanTheBytes) {
  const std::string start = encode(std::uint8_t{1}) + encode(std::uint8_t{2});
  for (const auto& shape : std::vector<std::array<std::int64_t, 2>>{
           {1 << 20, 1 << 20}, {std::int64_t{1} << 62, 8}, {-1, 1}, {-1, 0}, {3, 1}}) {
    EXPECT_EQ(code_of_decode(start + encode(shape) + "12345678"), ErrorCode::kDataLoss);
  }
  EXPECT_EQ(code_of_decode(encode(std::uint8_t{99})), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of_decode(encode(std::uint16_t{0xff01})), ErrorCode::kDataLoss);
  std::string broken = encode(at::ones({2}, at::kBool));
  broken.back() = 2;
  EXPECT_EQ(code_of_decode(broken), ErrorCode::kDataLoss);
}

TEST(TensorCodec, DecodesOrRefusesRandomBytes) {
  const std::string whole = encode(at::arange(6).reshape({2, 3}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(code_of_decode(whole.substr(0, size)), ErrorCode::kDataLoss);
  }
  base::CounterRng rng(3);
  for (int i = 0; i < 2000; ++i) {
    std::string broken = whole;
    broken[rng.uniform_below(20)] = static_cast<char>(rng.uniform_below(256));
    try {
      decode<at::Tensor>(broken);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace brigade::data
