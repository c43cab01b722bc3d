#include "brigade/checkpoint/torch_import.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/serialize/output-archive.h>

#include <random>
#include <sstream>
#include <string>

#include "brigade/checkpoint/testing/sample.h"
#include "brigade/checkpoint/testing/zip_file.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;

// Written by testing/make_torch_files.py.
io::Path file(const std::string& name) {
  return io::Path(BRIGADE_CHECKPOINT_TEST_DATA) / (name + ".pt");
}

SafetensorsFile read(const std::string& name) {
  return {.tensors = read_torch(*io::posix_file_system(), file(name)).tensors, .metadata = {}};
}

testing::Caught refused(const std::string& name) {
  return caught([&] { read(name); });
}

/// Reads bytes as a file; the result must always be tensors or an Error.
bool is_read(io::MemoryFileSystem& files, std::string_view bytes) {
  testing::write_file(files, "/f.pt", bytes);
  try {
    for (const NamedTensor& each : read_torch(files, "/f.pt").tensors) {
      each.tensor.contiguous();  // touches every element
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(TorchImport, ReadsEveryDtype) {
  const SafetensorsFile found = read("dtypes");
  EXPECT_EQ(found.tensors.size(), 10u);
  for (const NamedTensor& each : found.tensors) {
    EXPECT_EQ(device::file_dtype_of(each.tensor.scalar_type())->name, each.name);
    const auto expected = each.name == "bool" ? at::tensor({1, 0, 1}) : at::tensor({1, 2, 3});
    EXPECT_TRUE(at::equal(each.tensor.to(at::kLong), expected.to(at::kLong).view({1, 3})));
  }
}

TEST(TorchImport, ReadsViewsOfOneStorage) {
  const SafetensorsFile found = read("views");
  const at::Tensor whole = at::arange(6, at::kFloat);
  EXPECT_TRUE(at::equal(found.at("whole"), whole));
  EXPECT_TRUE(at::equal(found.at("transposed"), whole.view({2, 3}).t()));
  EXPECT_TRUE(at::equal(found.at("last"), whole.slice(0, 4)));
  EXPECT_TRUE(at::equal(found.at("strided"), whole.slice(0, 0, 6, 2)));
  EXPECT_EQ(found.at("scalar").item<float>(), 5);
  EXPECT_EQ(found.at("empty").sizes(), at::IntArrayRef({0, 3}));
  EXPECT_TRUE(found.at("whole").is_alias_of(found.at("last")));
}

TEST(TorchImport, ReadsTheStateDictOfAModel) {
  const SafetensorsFile found = read("model");
  EXPECT_EQ(found.tensors.size(), 7u);
  EXPECT_EQ(found.at("conv.weight").sizes(), at::IntArrayRef({2, 1, 3, 3}));
  EXPECT_TRUE(at::equal(found.at("conv.bias"), at::full({2}, 2.0)));
  EXPECT_EQ(found.at("norm.num_batches_tracked").scalar_type(), at::kLong);
}

TEST(TorchImport, FlattensNestedValuesAndListsOthers) {
  const TorchFile file_found = read_torch(*io::posix_file_system(), file("nested"));
  const SafetensorsFile found{.tensors = file_found.tensors, .metadata = {}};
  EXPECT_TRUE(at::equal(found.at("model.w"), at::full({2}, 1.0)));
  EXPECT_EQ(found.at("optimizer.state.0.exp_avg").sizes(), at::IntArrayRef({2, 1, 3, 3}));
  EXPECT_EQ(found.at("optimizer.state.0.step").item<float>(), 1);
  EXPECT_EQ(found.at("list.1.0").item<float>(), 1);
  const auto& left_out = file_found.left_out;
  for (const char* name : {"epoch", "name", "none", "big", "optimizer.param_groups.0.lr"}) {
    EXPECT_EQ(std::count(left_out.begin(), left_out.end(), name), 1) << name;
  }
}

/// A model with parameters, buffers and nested submodules.
struct Net : torch::nn::Module {
  Net() {
    inner = register_module("inner", std::make_shared<torch::nn::BatchNorm1dImpl>(2));
    head = register_module("head", torch::nn::Linear(2, 3));
    counts = register_buffer("counts", at::arange(4));
  }
  std::shared_ptr<torch::nn::BatchNorm1dImpl> inner;
  torch::nn::Linear head{nullptr};
  at::Tensor counts;
};

/// Writes `value` to `path` with torch::save.
template <class Value>
void save_by_libtorch(io::MemoryFileSystem& files, const std::string& path, const Value& value) {
  torch::serialize::OutputArchive archive;
  value.save(archive);
  std::ostringstream out;
  archive.save_to(out);
  testing::write_file(files, path, out.str());
}

TEST(TorchImport, ReadsParametersAndBuffersOfACppArchive) {
  io::MemoryFileSystem files;
  Net net;
  save_by_libtorch(files, "/net.pt", net);
  const TorchFile file_found = read_torch(files, "/net.pt");
  const SafetensorsFile found{.tensors = file_found.tensors, .metadata = {}};
  EXPECT_EQ(found.tensors.size(), 8u);
  for (const auto& parameter : net.named_parameters())
    EXPECT_TRUE(at::equal(found.at(parameter.key()), parameter.value())) << parameter.key();
  for (const auto& buffer : net.named_buffers())
    EXPECT_TRUE(at::equal(found.at(buffer.key()), buffer.value())) << buffer.key();
  EXPECT_TRUE(file_found.left_out.empty());
}

TEST(TorchImport, ReadsTheOptimizerOfACppArchive) {
  io::MemoryFileSystem files;
  Net net;
  torch::optim::Adam adam(net.head->parameters(), 0.125);
  net.head->weight.sum().backward();
  adam.step();
  save_by_libtorch(files, "/adam.pt", adam);
  const TorchFile found = read_torch(files, "/adam.pt");
  const auto exp_avg = std::ranges::find_if(
      found.tensors, [](const NamedTensor& each) { return each.name.ends_with(".exp_avg"); });
  ASSERT_NE(exp_avg, found.tensors.end());
  EXPECT_EQ(exp_avg->tensor.sizes(), at::IntArrayRef({3, 2}));
  EXPECT_TRUE(std::ranges::any_of(
      found.left_out, [](const std::string& name) { return name.ends_with("options.lr"); }));
}

TEST(TorchImport, ATruncatedCppArchiveIsRefused) {
  io::MemoryFileSystem files;
  save_by_libtorch(files, "/net.pt", Net());
  const std::string bytes = files.read("/net.pt");
  ASSERT_TRUE(is_read(files, bytes));
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    ASSERT_FALSE(is_read(files, std::string_view(bytes).substr(0, size))) << size;
  }
}

TEST(TorchImport, ABareTensorIsCalledTensor) {
  EXPECT_TRUE(at::equal(read("bare").at("tensor"), at::tensor({1.5F, 2.5F})));
}

TorchFile read_pickle(const std::string& pickle) {
  testing::ZipFile zip;
  zip.add("f/data.pkl", "\x80\x02" + pickle);
  io::MemoryFileSystem files;
  testing::write_file(files, "/f.pt", zip.bytes());
  return read_torch(files, "/f.pt");
}

// One long key with many values below it, each with its own name.
TEST(TorchImport, NamesTakeNoMoreThanAFewTimesTheFile) {
  constexpr std::uint32_t kKey = 100'000;
  std::string pickle =
      "}X" + std::string(reinterpret_cast<const char*>(&kKey), 4) + std::string(kKey, 'k') + "](";
  EXPECT_EQ(read_pickle(pickle + std::string(10, 'N') + "es.").left_out.size(), 10u);
  const auto error = caught([&] { read_pickle(pickle + std::string(100'000, 'N') + "es."); });
  EXPECT_EQ(error.code, ErrorCode::kDataLoss);
  EXPECT_NE(error.message.find("names"), std::string::npos) << error.message;
  EXPECT_LT(error.message.size(), 500u);
}

TEST(TorchImport, AListOfNestedRepetitionsIsRefused) {
  using std::string_literals::operator""s;
  std::string pickle = "](" + std::string(30'000, 'N') + "eq\0"s + "]("s;
  for (int i = 0; i < 30'000; ++i) pickle += "h\0"s;
  EXPECT_EQ(caught([&] { read_pickle(pickle + "e."); }).code, ErrorCode::kDataLoss);
}

TEST(TorchImport, RefusesUnsupportedContentByName) {
  const auto code = refused("code");
  EXPECT_EQ(code.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(code.message.find("torch.device"), std::string::npos) << code.message;
  const auto complex = refused("complex");
  EXPECT_EQ(complex.code, ErrorCode::kUnimplemented);
  EXPECT_NE(complex.message.find("ComplexFloatStorage"), std::string::npos) << complex.message;
  EXPECT_EQ(refused("legacy").code, ErrorCode::kUnimplemented);
  const auto expanded = refused("expanded");
  EXPECT_EQ(expanded.code, ErrorCode::kDataLoss);
  EXPECT_NE(expanded.message.find("contiguous()"), std::string::npos) << expanded.message;
  EXPECT_EQ(refused("absent").code, ErrorCode::kNotFound);
}

TEST(TorchImport, RefusesEveryTruncation) {
  io::MemoryFileSystem files;
  for (const char* name : {"views", "bare"}) {
    const std::string bytes = io::posix_file_system()->read(file(name));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_FALSE(is_read(files, std::string_view(bytes).substr(0, size))) << name << " " << size;
    }
  }
}

TEST(TorchImport, SurvivesEveryChangedByte) {
  io::MemoryFileSystem files;
  const std::string bytes = io::posix_file_system()->read(file("views"));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string broken = bytes;
      broken[at] = static_cast<char>(broken[at] ^ flip);
      is_read(files, broken);
    }
  }
}

// Checksums would reject most changes immediately: these have valid ones.
std::string with_right_sums(std::string bytes);

TEST(TorchImport, SurvivesRandomPickles) {
  const std::string bytes = io::posix_file_system()->read(file("nested"));
  const std::size_t begin = bytes.find("\x80\x02}");
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = bytes.find("PK", begin);
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::string broken = bytes;
    for (std::uint32_t change = 0; change <= seed % 4; ++change) {
      const std::size_t at = begin + random() % (end - begin);
      // Other bytes of the file are likelier to be instructions than any byte.
      broken[at] =
          seed % 2 == 0 ? static_cast<char>(random()) : bytes[begin + random() % (end - begin)];
    }
    io::MemoryFileSystem files;
    SCOPED_TRACE(seed);
    is_read(files, with_right_sums(std::move(broken)));
  }
}

std::uint32_t crc32_of(std::string_view bytes) {
  std::uint32_t sum = 0xffffffff;
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0xedb88320u : 0);
  }
  return ~sum;
}

// Of the pickle alone: it is the first entry, and the first of the directory.
std::string with_right_sums(std::string bytes) {
  std::uint16_t name = 0;
  std::uint16_t extra = 0;
  std::uint32_t size = 0;
  const std::size_t central = bytes.find("PK\1\2");
  std::memcpy(&name, bytes.data() + 26, 2);
  std::memcpy(&extra, bytes.data() + 28, 2);
  std::memcpy(&size, bytes.data() + central + 24, 4);
  const std::uint32_t sum = crc32_of(std::string_view(bytes).substr(30u + name + extra, size));
  std::memcpy(bytes.data() + central + 16, &sum, 4);
  return bytes;
}

TEST(TorchImport, TheChecksumsOfTheFuzzAreValid) {
  const std::string bytes = io::posix_file_system()->read(file("nested"));
  EXPECT_EQ(with_right_sums(bytes), bytes);
}

}  // namespace
}  // namespace brigade::checkpoint
