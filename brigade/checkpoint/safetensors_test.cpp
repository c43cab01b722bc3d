#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/checkpoint/safetensors.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::checkpoint {
namespace {

using std::string_literals::operator""s;

// Byte by byte as Python's safetensors 0.8 writes {"b": float32 [1.0, -2.0], "a": uint8 [[7],
// [9]]}, with the metadata
// {"format": "pt"}: length, header, padding to 8, data.
std::string golden() {
  const auto header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[2,1],"data_offsets":[8,10]}})"s;
  const auto padding = std::string((8 - header.size() % 8) % 8, ' ');
  return std::string(1, static_cast<char>(header.size() + padding.size())) + "\0\0\0\0\0\0\0"s +
         header + padding + "\x00\x00\x80\x3f\x00\x00\x00\xc0"s + "\x07\x09"s;
}

std::vector<NamedTensor> golden_tensors() {
  return {{"a", torch::tensor({7, 9}, at::kByte).view({2, 1})},
          {"b", torch::tensor({1.0F, -2.0F})}};
}

SafetensorsFile read_bytes(std::string_view bytes) {
  io::MemoryFileSystem files;
  auto file = files.create("/w", io::CreateMode::kTruncate);
  file->write(io::as_bytes(bytes));
  file->close();
  return read_safetensors(files, "/w");
}

std::string why_refused(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(Safetensors, WritesTheBytesThatPythonWrites) {
  io::MemoryFileSystem files;
  save_safetensors(files, "/w", golden_tensors(), {{"format", "pt"}});
  EXPECT_EQ(files.read("/w"), golden());
}

TEST(Safetensors, ReadsTheBytesThatPythonWrites) {
  const auto file = read_bytes(golden());
  const auto expected = golden_tensors();
  ASSERT_EQ(file.tensors.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(file.tensors[i].name, expected[i].name);
    EXPECT_EQ(file.tensors[i].tensor.scalar_type(), expected[i].tensor.scalar_type());
    EXPECT_TRUE(at::equal(file.tensors[i].tensor, expected[i].tensor));
  }
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
}

TEST(Safetensors, EveryDtypeIsReadBackBitForBit) {
  io::MemoryFileSystem files;
  std::vector<NamedTensor> tensors;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                          at::kShort, at::kChar, at::kByte, at::kBool}) {
    const auto name = std::string(at::toString(type));
    tensors.push_back({name, torch::tensor({1, 0, 1, 1, 0, 1}).view({2, 3}).to(type)});
    tensors.push_back({name + "/scalar", torch::ones({}, type)});
    tensors.push_back({name + "/empty", torch::ones({3, 0}, type)});
  }
  save_safetensors(files, "/w", tensors);
  const auto file = read_safetensors(files, "/w");
  EXPECT_EQ(file.tensors.size(), tensors.size());
  for (const auto& each : tensors) {
    const auto& back = file.at(each.name);
    EXPECT_EQ(back.scalar_type(), each.tensor.scalar_type()) << each.name;
    EXPECT_TRUE(at::equal(back, each.tensor)) << each.name;
  }
}

TEST(Safetensors, OrderAndStridesDoNotChangeTheBytes) {
  io::MemoryFileSystem files;
  const auto matrix = torch::rand({3, 4}).requires_grad_();
  const auto other = torch::ones({2}, at::kDouble);
  save_safetensors(files, "/1", std::vector<NamedTensor>{{"m", matrix}, {"o", other}});
  const auto transposed = matrix.t().contiguous().t();
  ASSERT_FALSE(transposed.is_contiguous());
  save_safetensors(files, "/2", std::vector<NamedTensor>{{"o", other}, {"m", transposed}});
  EXPECT_EQ(files.read("/1"), files.read("/2"));
}

TEST(Safetensors, NamesMayHoldAnyText) {
  io::MemoryFileSystem files;
  const auto name = "tower \"0\"/\xc3\xa4\n\\"s;
  save_safetensors(files, "/w", std::vector<NamedTensor>{{name, torch::ones({1})}});
  EXPECT_EQ(read_safetensors(files, "/w").tensors[0].name, name);
}

TEST(Safetensors, RefusesEveryTruncation) {
  const auto whole = golden();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto message = why_refused([&] { read_bytes(std::string_view(whole).substr(0, length)); },
                                     ErrorCode::kDataLoss);
    EXPECT_EQ(message.rfind("/w: ", 0), 0U) << message;
  }
  why_refused([&] { read_bytes(whole + "x"); }, ErrorCode::kDataLoss);
}

TEST(Safetensors, AnyFlippedBitIsRefusedOrHarmless) {
  const auto whole = golden();
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    auto broken = whole;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
    try {
      for (const auto& each : read_bytes(broken).tensors) each.tensor.sum();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
    }
  }
}

TEST(Safetensors, RefusesInvalidHeaderLengths) {
  for (const auto last : {'\x01', '\x7f', '\xff'}) {
    auto bytes = golden();
    bytes[7] = last;
    const auto message = why_refused([&] { read_bytes(bytes); }, ErrorCode::kDataLoss);
    EXPECT_NE(message.find("the header's length"), std::string::npos) << message;
  }
}

TEST(Safetensors, RefusesInvalidBoolBytes) {
  io::MemoryFileSystem files;
  save_safetensors(files, "/w", std::vector<NamedTensor>{{"flag", torch::ones({3}, at::kBool)}});
  auto bytes = files.read("/w");
  bytes.back() = 2;
  const auto message = why_refused([&] { read_bytes(bytes); }, ErrorCode::kDataLoss);
  EXPECT_NE(message.find("tensor 'flag'"), std::string::npos) << message;
}

TEST(Safetensors, RefusesTensorsItCannotWrite) {
  io::MemoryFileSystem files;
  const auto save = [&](std::vector<NamedTensor> tensors) {
    return why_refused([&] { save_safetensors(files, "/w", tensors); },
                       ErrorCode::kInvalidArgument);
  };
  const auto one = torch::ones({1});
  EXPECT_NE(save({{"x", one}, {"y", one}, {"x", one}}).find("two tensors are called 'x'"),
            std::string::npos);
  EXPECT_NE(save({{"x", at::Tensor()}}).find("'x' is undefined"), std::string::npos);
  EXPECT_NE(save({{"x", torch::ones({1}, at::kComplexFloat)}}).find("'x' is ComplexFloat"),
            std::string::npos);
  save({{"x", torch::ones({2, 2}).to_sparse()}});
  save({{"__metadata__", one}});
  save({{"\xff", one}});
  EXPECT_FALSE(files.exists("/w"));
}

TEST(Safetensors, MissingTensorNamesTheNearest) {
  const SafetensorsFile file{{{"conv1.weight", torch::ones({1})}}, {}};
  const auto message = why_refused([&] { file.at("conv1.weigth"); }, ErrorCode::kNotFound);
  EXPECT_NE(message.find("did you mean 'conv1.weight'?"), std::string::npos) << message;
}

}  // namespace

}  // namespace brigade::checkpoint
