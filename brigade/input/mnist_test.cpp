#include "brigade/input/mnist.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/input/image_normalizer.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::input {
namespace {

using data::testing::error_of;

std::string big_endian(std::uint32_t word) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift & 0xff);
  return bytes;
}

/// A folder /data with `images` images of 28 x `width` and these labels.
void write_data(io::MemoryFileSystem& files, std::uint32_t images, const std::string& labels,
                std::uint32_t width = 28, const std::string& prefix = "train") {
  files.create_directories("/data");
  const std::string pixels(static_cast<std::size_t>(images) * 28 * width, '\xff');
  io::atomic_write(
      files, "/data/" + prefix + "-images-idx3-ubyte",
      big_endian(2051) + big_endian(images) + big_endian(28) + big_endian(width) + pixels);
  io::atomic_write(
      files, "/data/" + prefix + "-labels-idx1-ubyte",
      big_endian(2049) + big_endian(static_cast<std::uint32_t>(labels.size())) + labels);
}

bool mentions(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

TEST(Mnist, GivesFloatsBetweenZeroAndOne) {
  io::MemoryFileSystem files;
  write_data(files, 2, "\x03\x09");
  const auto dataset = mnist(files, "/data", Split::kTrain);
  EXPECT_EQ(dataset.cardinality(), 2);
  EXPECT_EQ(dataset.describe(), "mnist(train)");
  auto iterator = dataset.iterator();
  const auto first = iterator.next();
  EXPECT_EQ(first->features.sizes(), at::IntArrayRef({1, 28, 28}));
  EXPECT_EQ(first->features.scalar_type(), at::kFloat);
  EXPECT_EQ(first->features.max().item<float>(), 1.0F);
  EXPECT_EQ(first->label, 3);
  EXPECT_EQ(iterator.next()->label, 9);
}

TEST(Mnist, BytesThatAreNormalizedLaterHaveTheSameValues) {
  io::MemoryFileSystem files;
  write_data(files, 2, "\x03\x09");
  const auto floats = mnist(files, "/data", Split::kTrain);
  const auto bytes = mnist(files, "/data", Split::kTrain, ImageOutput::kBytes);
  EXPECT_EQ(bytes.describe(), floats.describe()) << "a position of one is one of the other";
  auto expected = floats.batch(2).iterator();
  auto sent = bytes.batch(2).iterator();
  const auto batch = sent.next();
  EXPECT_EQ(batch->features.scalar_type(), at::kByte);
  EXPECT_TRUE(ImageNormalizer::unit_range()(batch->features).equal(expected.next()->features));
}

TEST(Mnist, TheTestSplitHasSeparateFiles) {
  io::MemoryFileSystem files;
  write_data(files, 1, "\x03", 28, "t10k");
  EXPECT_EQ(mnist(files, "/data", Split::kTest).cardinality(), 1);
  EXPECT_EQ(error_of([&] { mnist(files, "/data", Split::kTrain); }).code(), ErrorCode::kNotFound);
}

TEST(Mnist, AMissingFolderNamesThePackage) {
  io::MemoryFileSystem files;
  const Error error = error_of([&] { fashion_mnist(files, "/nowhere", Split::kTrain); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_EQ(std::string(error.what()),
            "No Fashion-MNIST: there is no folder /nowhere; install Debian's package "
            "dataset-fashion-mnist, or name another folder");
}

TEST(Mnist, AMissingFileIsNamed) {
  io::MemoryFileSystem files;
  write_data(files, 1, "\x01");
  files.remove("/data/train-labels-idx1-ubyte");
  const Error error = error_of([&] { fashion_mnist(files, "/data", Split::kTrain); });
  EXPECT_TRUE(mentions(error,
                       "neither train-labels-idx1-ubyte nor train-labels-idx1-ubyte.gz in "
                       "/data"))
      << error.what();
}

TEST(Mnist, CountsThatDifferAreNamed) {
  io::MemoryFileSystem files;
  write_data(files, 3, "\x01\x02");
  const Error error = error_of([&] { fashion_mnist(files, "/data", Split::kTrain); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(mentions(error, "has 3 images")) << error.what();
  EXPECT_TRUE(mentions(error, "has 2 labels")) << error.what();
}

TEST(Mnist, LabelsAndSizesOutOfRangeAreNamed) {
  io::MemoryFileSystem files;
  write_data(files, 2, "\x01\x0a");
  const Error label = error_of([&] { fashion_mnist(files, "/data", Split::kTrain); });
  EXPECT_EQ(label.code(), ErrorCode::kDataLoss);
  EXPECT_TRUE(mentions(label, "Label 1 of /data/train-labels-idx1-ubyte is 10")) << label.what();
  write_data(files, 2, "\x01\x02", 27);
  EXPECT_TRUE(mentions(error_of([&] { fashion_mnist(files, "/data", Split::kTrain); }), "28x27"));
}

TEST(Mnist, ReadsDebiansFiles) {
  if (!io::posix_file_system()->exists(kFashionMnistDirectory)) {
    GTEST_SKIP() << "Debian's package dataset-fashion-mnist is not installed";
  }
  const auto dataset = fashion_mnist(kFashionMnistDirectory, Split::kTest);
  EXPECT_EQ(dataset.cardinality(), 10'000);
  std::vector<int> counts(10);
  double sum = 0;
  for (const auto& batch : dataset.batch(1000)) {
    sum += batch.features.sum(at::kDouble).item<double>();
    for (std::int64_t i = 0; i < 1000; ++i) {
      ++counts[static_cast<std::size_t>(batch.labels[i].item<std::int64_t>())];
    }
  }
  EXPECT_EQ(counts, std::vector<int>(10, 1000));
  EXPECT_NEAR(sum / (10'000 * 784), 0.2868, 0.0001);  // the mean that everybody normalizes by
}

}  // namespace
}  // namespace brigade::input
