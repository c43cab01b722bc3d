#include "brigade/checkpoint/tf_bundle.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "brigade/checkpoint/testing/sample.h"
#include "brigade/device/dtypes.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/io/testing/sstable_file.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;
using Names = std::vector<std::string>;

// Written by testing/make_tf_bundles.py.
io::Path tf_file(const std::string& name) {
  return io::Path(BRIGADE_CHECKPOINT_TEST_DATA) / "tf" / name;
}

TfBundle opened(const std::string& name) {
  return TfBundle::open(io::posix_file_system(), tf_file(name));
}

/// The elements that make_tf_bundles.py gives a variable.
at::Tensor values(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat, int salt = 0) {
  std::int64_t count = 1;
  for (const std::int64_t each : shape) count *= each;
  const at::Tensor numbers = (at::arange(count, at::kLong) * 5 + salt).remainder(17) - 8;
  if (dtype == at::kBool) return numbers.gt(0).view(shape);
  if (dtype == at::kByte) return (numbers + 8).to(dtype).view(shape);
  if (!at::isFloatingType(dtype)) return numbers.to(dtype).view(shape);
  return numbers.to(at::kDouble).div(4).to(dtype).view(shape);
}

void expect_equal(const at::Tensor& found, const at::Tensor& expected) {
  EXPECT_EQ(found.scalar_type(), expected.scalar_type());
  EXPECT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(at::equal(found, expected)) << found << expected;
}

/// Copies of the files of a bundle in memory, as /m.*, that a test can damage.
class DamagedBundle : public ::testing::Test {
 protected:
  void copy(const std::string& name) {
    for (const char* suffix : {".index", ".data-00000-of-00001"}) {
      write(suffix, io::posix_file_system()->read(tf_file(name + suffix)));
    }
  }
  std::string content(const std::string& suffix) const { return files_->read("/m" + suffix); }
  void write(const std::string& suffix, const std::string& bytes) {
    testing::write_file(*files_, "/m" + suffix, bytes);
  }
  TfBundle open() const { return TfBundle::open(files_, "/m"); }

  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
};

TEST(TfBundle, ReadsEveryDtypeOfASaver) {
  const TfBundle bundle = opened("saver");
  for (const device::FileDtype& dtype : device::file_dtypes()) {
    SCOPED_TRACE(dtype.name);
    expect_equal(bundle.read("dtypes/" + std::string(dtype.name)), values({2, 3}, dtype.type));
  }
  expect_equal(bundle.read("scalar"), values({}, at::kLong, 3));
  expect_equal(bundle.read("empty"), values({0, 4}));
  EXPECT_EQ(bundle.bytes(), 751U + 1822U);
}

TEST(TfBundle, JoinsThePartsOfPartitionedVariables) {
  const TfBundle bundle = opened("saver");
  expect_equal(bundle.read("embedding/weights"), values({130, 3}));
  expect_equal(bundle.read("columns/weights"), values({2, 7}));
  expect_equal(opened("whole_axis").read(std::string_view("a\0b", 3)),
               at::cat({values({2, 3}), values({1, 3})}));
}

TEST(TfBundle, ReadsAllDataFiles) {
  const TfBundle bundle = opened("sharded");
  for (int device = 0; device < 2; ++device) {
    const std::string scope = "on_" + std::to_string(device);
    expect_equal(bundle.read(scope + "/a"), values({2, 2}, at::kFloat, device));
    expect_equal(bundle.read(scope + "/b"), values({3}, at::kInt, device));
  }
  EXPECT_EQ(bundle.bytes(), 201U + 28U + 28U);
}

TEST(TfBundle, ReadsAnObjectBasedCheckpoint) {
  const TfBundle bundle = opened("objects");
  const std::string suffix = "/.ATTRIBUTES/VARIABLE_VALUE";
  // Keras's order of the weights is that of their numbers.
  expect_equal(bundle.read("model/layer_with_weights-0/kernel" + suffix), values({3, 3, 3, 2}));
  expect_equal(bundle.read("model/layer_with_weights-2/bias" + suffix), values({4}, at::kFloat, 7));
  EXPECT_EQ(bundle.read("step" + suffix).item<std::int64_t>(), 7);
  EXPECT_EQ(bundle.tensors().size(), bundle.list().size() - 1) << "the graph is a string";
}

TEST(TfBundle, ListsWhatItCannotReadAndRefusesToReadIt) {
  const TfBundle bundle = opened("others");
  Names listed;
  for (const TfBundle::Listed& each : bundle.list()) {
    listed.push_back(each.name + " " + each.dtype + (each.is_readable ? "" : " -"));
  }
  EXPECT_EQ(listed,
            (Names{"complex complex64 -", "plain float32", "strings string -", "uint32 uint32 -"}));
  EXPECT_EQ(bundle.list()[2].shape, std::vector<std::int64_t>{3});
  const auto error = caught([&] { bundle.read("strings"); });
  EXPECT_EQ(error.code, ErrorCode::kUnimplemented);
  EXPECT_NE(error.message.find("'strings' is string"), std::string::npos) << error.message;
  ASSERT_EQ(bundle.tensors().size(), 1u);
  expect_equal(bundle.tensors()[0].tensor, values({2}));
}

TEST(TfBundle, RefusesANameThatIsNotText) {
  const auto error = caught([] { opened("no_text"); });
  EXPECT_EQ(error.code, ErrorCode::kDataLoss);
  EXPECT_NE(error.message.find("'a\\xff' is not UTF-8"), std::string::npos) << error.message;
}

TEST(TfBundle, NamesTheNearestTensorForOneThatIsMissing) {
  const auto error = caught([] { opened("others").read("plan"); });
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_NE(error.message.find("did you mean 'plain'"), std::string::npos) << error.message;
}

TEST(TfBundle, ItsPrefixIsFoundByPrefixAndIndex) {
  const auto files = io::posix_file_system();
  EXPECT_EQ(tf_bundle_prefix(*files, tf_file("saver")), tf_file("saver"));
  EXPECT_EQ(tf_bundle_prefix(*files, tf_file("saver.index")), tf_file("saver"));
  EXPECT_EQ(tf_bundle_prefix(*files, tf_file("nothing")), std::nullopt);
  EXPECT_EQ(tf_bundle_prefix(*files, tf_file("")), std::nullopt);
  const auto error =
      caught([&] { tf_bundle_prefix(*files, tf_file("saver.data-00000-of-00001")); });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message.find("saver.index"), std::string::npos) << error.message;
}

TEST_F(DamagedBundle, AMissingFileIsNamed) {
  copy("saver");
  files_->remove("/m.data-00000-of-00001");
  const auto data = caught([&] { open(); });
  EXPECT_EQ(data.code, ErrorCode::kNotFound);
  EXPECT_NE(data.message.find("/m.data-00000-of-00001: it is missing"), std::string::npos)
      << data.message;
  files_->remove("/m.index");
  EXPECT_EQ(caught([&] { open(); }).code, ErrorCode::kNotFound);
}

TEST_F(DamagedBundle, EveryShorterFileIsRefusedNamingIt) {
  copy("saver");
  const std::string data = content(".data-00000-of-00001"), index = content(".index");
  for (std::size_t size = 0; size < data.size(); size += 7) {
    write(".data-00000-of-00001", data.substr(0, size));
    const auto error = caught([&] { open(); });
    EXPECT_EQ(error.code, ErrorCode::kDataLoss) << size;
    EXPECT_EQ(error.message.find("/m.data-00000-of-00001: "), 0u) << error.message;
  }
  write(".data-00000-of-00001", data);
  for (std::size_t size = 0; size < index.size(); size += 7) {
    write(".index", index.substr(0, size));
    const auto error = caught([&] { open(); });
    EXPECT_EQ(error.code, ErrorCode::kDataLoss) << size;
    EXPECT_EQ(error.message.find("/m.index: "), 0u) << error.message;
  }
}

TEST_F(DamagedBundle, EveryChangedByteOfTheDataIsFoundAndNamed) {
  copy("saver");
  const std::string data = content(".data-00000-of-00001");
  for (std::size_t at = 0; at < data.size(); at += 11) {
    std::string changed = data;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    write(".data-00000-of-00001", changed);
    const auto error = caught([&] { open().tensors(); });
    EXPECT_EQ(error.code, ErrorCode::kDataLoss);
    EXPECT_NE(error.message.find("/m.data-00000-of-00001: the "), std::string::npos);
    EXPECT_NE(error.message.find(" of tensor '"), std::string::npos);
    EXPECT_NE(error.message.find("wrong checksum"), std::string::npos) << error.message;
  }
}

TEST_F(DamagedBundle, ChangesOfTheIndexAreRefusedOrWithoutEffect) {
  copy("saver");
  const std::string index = content(".index");
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string changed = index;
    for (int k = 0; k < 2; ++k) changed[random() % changed.size()] = static_cast<char>(random());
    write(".index", changed);
    try {
      const std::vector<NamedTensor> found = open().tensors();
      EXPECT_EQ(found.size(), 14u);
    } catch (const Error&) {
    }
  }
}

TEST_F(DamagedBundle, ABoolIsZeroOrOne) {
  const std::string two(1, '\2');
  const std::string sum = io::sstable_fixed32(io::mask_crc32c(io::crc32c(io::as_bytes(two))));
  write(".index", io::sstable({{"", "\x08\x01"}, {"b", "\x08\x0a\x28\x01\x35" + sum}}));
  write(".data-00000-of-00001", two);
  const auto error = caught([&] { open().read("b"); });
  EXPECT_EQ(error.code, ErrorCode::kDataLoss);
  EXPECT_NE(error.message.find("neither 0 nor 1"), std::string::npos) << error.message;
}

// A data file that shrinks after it was opened, as on a network's disk.
TEST_F(DamagedBundle, ADataFileThatShrinksIsNoticed) {
  copy("saver");
  const TfBundle bundle = open();
  write(".data-00000-of-00001", content(".data-00000-of-00001").substr(0, 100));
  const auto error = caught([&] { bundle.tensors(); });
  EXPECT_EQ(error.code, ErrorCode::kDataLoss);
  EXPECT_NE(error.message.find("end while they are read"), std::string::npos) << error.message;
}

}  // namespace
}  // namespace brigade::checkpoint
