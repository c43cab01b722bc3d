#include "brigade/checkpoint/weights_hash.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/sha256.h"

namespace brigade::checkpoint {
namespace {

using std::string_literals::operator""s;

TEST(WeightsSha256, HashesTheDocumentedBytes) {
  const std::vector<NamedTensor> variables = {
      {"b", torch::tensor({1.0F, -2.0F}).view({1, 2})},
      {"a", torch::tensor(258, at::kInt)},  // a scalar: no dimensions
  };
  const auto bytes = "a\0int32\0"s + "\x02\x01\0\0"s + "b\0float32\0"s +
                     "\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"s + "\0\0\x80\x3f\0\0\0\xc0"s;
  EXPECT_EQ(weights_sha256(variables), io::sha256_hex(bytes));
}

TEST(WeightsSha256, DependsOnNameDtypeShapeAndBitsOnly) {
  const auto matrix = torch::rand({3, 4});
  const auto hash = [](std::string name, at::Tensor tensor) {
    return weights_sha256(std::vector<NamedTensor>{{name, tensor}});
  };
  const auto expected = hash("m", matrix);
  EXPECT_EQ(expected.size(), 64U);
  EXPECT_EQ(hash("m", matrix.t().contiguous().t().requires_grad_()), expected);
  EXPECT_NE(hash("n", matrix), expected);
  EXPECT_NE(hash("m", matrix.view({4, 3})), expected);
  EXPECT_NE(hash("m", matrix.view(at::kInt)), expected);
  EXPECT_NE(hash("z", torch::tensor({0.0F})), hash("z", torch::tensor({-0.0F})));
}

TEST(WeightsSha256, RefusesUnsupportedTensors) {
  const auto one = torch::ones({1});
  const auto refused = [](std::vector<NamedTensor> variables) {
    EXPECT_THROW(weights_sha256(variables), Error);
  };
  refused({{"x", one}, {"x", one}});
  refused({{"x\0y"s, one}});
  refused({{"x", at::Tensor()}});
  refused({{"x", torch::ones({1}, at::kComplexFloat)}});
}

}  // namespace
}  // namespace brigade::checkpoint
