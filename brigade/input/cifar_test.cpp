#include "brigade/input/cifar.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/input/image_normalizer.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::input {
namespace {

using data::testing::error_of;

constexpr std::size_t kPlane = 1024;

/// A record with these label bytes, whose planes are constant but for the first and last pixel.
std::string record(const std::string& labels, const std::string& planes = "\x01\x02\x03") {
  std::string bytes = labels;
  for (const char value : planes) {
    std::string plane(kPlane, value);
    plane.front() = '\0';
    plane.back() = '\xff';
    bytes += plane;
  }
  return bytes;
}

/// CIFAR-10 in /data, with one record in each file: its label is the number of the file.
void write_cifar10(io::MemoryFileSystem& files, const std::string& folder = "/data") {
  files.create_directories(folder);
  for (char number = 1; number <= 5; ++number) {
    io::atomic_write(files, folder + "/data_batch_" + std::to_string(number) + ".bin",
                     record(std::string(1, number)));
  }
  io::atomic_write(files, folder + "/test_batch.bin", record("\x09") + record("\x08"));
}

Error error_of_cifar10(const io::FileSystem& files, Split split = Split::kTrain) {
  return error_of([&] { cifar10(files, "/data", split); });
}

bool says(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

TEST(Cifar, GivesFloatPlanesInTheOrderOfTheFiles) {
  io::MemoryFileSystem files;
  write_cifar10(files);
  const auto dataset = cifar10(files, "/data", Split::kTrain);
  EXPECT_EQ(dataset.cardinality(), 5);
  EXPECT_EQ(dataset.describe(), "cifar10(train)");
  std::vector<std::int64_t> labels;
  for (const auto& example : dataset) {
    labels.push_back(example.label);
    ASSERT_EQ(example.features.sizes(), at::IntArrayRef({3, 32, 32}));
    ASSERT_EQ(example.features.scalar_type(), at::kFloat);
    for (std::int64_t channel = 0; channel < 3; ++channel) {
      const at::Tensor plane = example.features.select(0, channel);
      EXPECT_EQ(plane[0][0].item<float>(), 0.0F);
      EXPECT_EQ(plane[0][1].item<float>(), static_cast<float>(channel + 1) / 255.0F);
      EXPECT_EQ(plane[31][31].item<float>(), 1.0F);
    }
  }
  EXPECT_EQ(labels, (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
}

TEST(Cifar, BytesThatAreNormalizedLaterHaveTheSameValues) {
  io::MemoryFileSystem files;
  write_cifar10(files);
  auto expected = cifar10(files, "/data", Split::kTrain).batch(5).iterator();
  const auto bytes = cifar10(files, "/data", Split::kTrain, ImageOutput::kBytes);
  auto sent = bytes.batch(5).iterator();
  const auto batch = sent.next();
  EXPECT_EQ(batch->features.scalar_type(), at::kByte);
  EXPECT_TRUE(ImageNormalizer::unit_range()(batch->features).equal(expected.next()->features));
}

TEST(Cifar, ReadsTheFolderOfTheArchiveAndTheTestSplit) {
  io::MemoryFileSystem files;
  write_cifar10(files, "/data/cifar-10-batches-bin");
  const auto dataset = cifar10(files, "/data", Split::kTest);
  EXPECT_EQ(dataset.cardinality(), 2);
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next()->label, 9);
  EXPECT_EQ(iterator.next()->label, 8);
}

TEST(Cifar, TheFineAndTheCoarseLabelsOfCifar100) {
  io::MemoryFileSystem files;
  files.create_directories("/data");
  io::atomic_write(files, "/data/train.bin",
                   record("\x13\x63") + record(std::string("\x00\x32", 2)));
  const auto labels_of = [&](Cifar100Labels labels) {
    std::vector<std::int64_t> all;
    for (const auto& example : cifar100(files, "/data", Split::kTrain, labels)) {
      all.push_back(example.label);
      EXPECT_EQ(example.features[2][5][5].item<float>(), 3.0F / 255.0F);
    }
    return all;
  };
  EXPECT_EQ(labels_of(Cifar100Labels::kFine), (std::vector<std::int64_t>{99, 50}));
  EXPECT_EQ(labels_of(Cifar100Labels::kCoarse), (std::vector<std::int64_t>{19, 0}));
}

TEST(Cifar, BatchesAndResumesAsAnyDataset) {
  io::MemoryFileSystem files;
  write_cifar10(files);
  const auto dataset = cifar10(files, "/data", Split::kTrain).batch(2);
  auto iterator = dataset.iterator();
  EXPECT_EQ(iterator.next()->features.sizes(), at::IntArrayRef({2, 3, 32, 32}));
  auto resumed = dataset.iterator();
  resumed.restore(iterator.save());
  EXPECT_EQ(resumed.next()->labels[0].item<std::int64_t>(), 3);
}

TEST(Cifar, AMissingFolderOrFileIsNamed) {
  io::MemoryFileSystem files;
  const Error folder = error_of_cifar10(files);
  EXPECT_EQ(folder.code(), ErrorCode::kNotFound);
  EXPECT_EQ(std::string(folder.what()),
            "No CIFAR-10: there is no folder /data; unpack the archive of its binary version, and "
            "name its folder cifar-10-batches-bin");
  write_cifar10(files);
  files.remove("/data/data_batch_4.bin");
  const Error file = error_of_cifar10(files);
  EXPECT_EQ(file.code(), ErrorCode::kNotFound);
  EXPECT_TRUE(says(file, "there is no data_batch_4.bin in /data")) << file.what();
  EXPECT_EQ(error_of([&] { cifar100(files, "/data", Split::kTrain); }).code(),
            ErrorCode::kNotFound);
}

TEST(Cifar, ATruncatedFileIsNamedWithItsRecord) {
  io::MemoryFileSystem files;
  write_cifar10(files);
  io::atomic_write(files, "/data/data_batch_3.bin",
                   record("\x01") + record("\x02").substr(0, 3000));
  const Error error = error_of_cifar10(files);
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_TRUE(says(error,
                   "/data/data_batch_3.bin has 6073 bytes: record 1 has only 3000 of "
                   "its 3073"))
      << error.what();
}

TEST(Cifar, AnEmptyFileIsRefused) {
  io::MemoryFileSystem files;
  write_cifar10(files);
  io::atomic_write(files, "/data/test_batch.bin", "");
  const Error error = error_of_cifar10(files, Split::kTest);
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(says(error, "/data/test_batch.bin is empty")) << error.what();
}

TEST(Cifar, ALabelThatIsNoClassIsNamedWithItsRecord) {
  io::MemoryFileSystem files;
  write_cifar10(files);
  io::atomic_write(files, "/data/data_batch_2.bin", record("\x01") + record("\x0a"));
  const Error error = error_of_cifar10(files);
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(says(error,
                   "Record 1 of /data/data_batch_2.bin has the label 10; there are only "
                   "classes 0 to 9"))
      << error.what();
  // Both labels of CIFAR-100 are checked, whichever is wanted.
  for (const auto labels : {Cifar100Labels::kFine, Cifar100Labels::kCoarse}) {
    io::atomic_write(files, "/data/train.bin", record(std::string("\x14\x00", 2)));
    EXPECT_TRUE(says(error_of([&] { cifar100(files, "/data", Split::kTrain, labels); }),
                     "the coarse label 20; there are only classes 0 to 19"));
    io::atomic_write(files, "/data/train.bin", record("\x13\x64"));
    EXPECT_TRUE(says(error_of([&] { cifar100(files, "/data", Split::kTrain, labels); }),
                     "the fine label 100; there are only classes 0 to 99"));
  }
}

}  // namespace
}  // namespace brigade::input
