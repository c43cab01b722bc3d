#include "brigade/input/idx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "brigade/data/testing/dataset_contract.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/compression.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::input {
namespace {

using data::testing::error_of;
using namespace std::string_literals;  // NOLINT: the bytes hold zeros

const std::string kLabels = "\0\0\x08\x01\0\0\0\x03\x01\x02\x03"s;
const std::string kImages = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02"s + "\x05\x06\x07\x08"s;
/// kLabels, as gzip writes it.
const std::string kZippedLabels =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x63\x60\xe0\x60\x64\x60\x60\x60\x66\x64\x62\x06\x00"
    "\x8b\xe5\xbd\xa4\x0b\x00\x00\x00"s;

/// Reads a file with these bytes and returns the error it must give.
Error error_reading(const std::string& bytes) {
  io::MemoryFileSystem files;
  io::atomic_write(files, "/labels", bytes);
  return error_of([&] { idx_labels(files, "/labels"); });
}

TEST(Idx, ReadsPlainFiles) {
  io::MemoryFileSystem files;
  io::atomic_write(files, "/labels", kLabels);
  io::atomic_write(files, "/images", kImages);
  const at::Tensor labels = idx_labels(files, "/labels");
  EXPECT_EQ(labels.scalar_type(), at::kByte);
  EXPECT_EQ(labels.sizes(), at::IntArrayRef({3}));
  EXPECT_EQ(labels[2].item<int>(), 3);
  const at::Tensor images = idx_images(files, "/images");
  EXPECT_EQ(images.sizes(), at::IntArrayRef({2, 1, 2}));
  EXPECT_EQ(images[1][0][1].item<int>(), 8);
}

TEST(Idx, ReadsGzipWhateverTheName) {
  io::MemoryFileSystem files;
  io::atomic_write(files, "/labels", kZippedLabels);
  EXPECT_EQ(idx_labels(files, "/labels")[1].item<int>(), 2);
}

TEST(Idx, NamesAMagicNumberThatIsWrong) {
  const Error error = error_reading(kImages);
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(std::string(error.what()),
            "The file /labels has the magic number 2051, expected 2049 (an idx file of unsigned "
            "bytes in 1 dimensions, plain or gzip)");
  EXPECT_EQ(error_reading("<html>not found</html>").code(), ErrorCode::kInvalidArgument);
}

TEST(Idx, NamesTheSizesOfATruncatedFile) {
  const Error error = error_reading(kLabels.substr(0, 10));
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_EQ(std::string(error.what()),
            "The idx file /labels is broken: its dimensions 3 need 3 bytes, but it holds 2; fetch "
            "it again");
}

TEST(Idx, RefusesEveryTruncationOfAFile) {
  for (const std::string& whole : {kLabels, kZippedLabels}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Error error = error_reading(whole.substr(0, size));
      EXPECT_NE(std::string(error.what()).find("/labels"), std::string::npos) << error.what();
    }
  }
}

TEST(Idx, RefusesTrailingBytes) {
  EXPECT_EQ(error_reading(kLabels + "x").code(), ErrorCode::kDataLoss);
  EXPECT_EQ(error_reading(kZippedLabels + "x").code(), ErrorCode::kDataLoss);
}

/// The bytes, as a gzip file.
std::string gzip(const std::string& head, std::size_t zeros) {
  io::MemoryFileSystem files;
  auto file = io::compressed(files.create("/x", io::CreateMode::kTruncate), io::Compression::kGzip);
  file->write(io::as_bytes(head));
  const std::string piece(1 << 20, '\0');
  for (std::size_t left = zeros; left > 0; left -= std::min(left, piece.size())) {
    file->write(io::as_bytes(piece).first(std::min(left, piece.size())));
  }
  file->close();
  return files.read("/x");
}

TEST(Idx, ReadsNoMoreThanTheHeaderSays) {
  const Error error = error_reading(gzip(kLabels, 100 << 20));
  EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
  EXPECT_NE(std::string(error.what()).find("need 3 bytes, but it holds more"), std::string::npos)
      << error.what();
}

TEST(Idx, ComparesTheHeaderWithTheFileBeforeItTakesMemory) {
  const std::string head = "\0\0\x08\x01\xff\xff\xff\xf0"s;  // 4 GiB
  for (const std::string& bytes : {head, head + "x", gzip(head, 0), gzip(head, 1 << 20)}) {
    const Error error = error_reading(bytes);
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(std::string(error.what()).find("need 4294967280 bytes"), std::string::npos)
        << error.what();
  }
}

TEST(Idx, RefusesDimensionsThatOverflow) {
  io::MemoryFileSystem files;
  const auto error_reading_images = [&](const std::string& bytes) {
    io::atomic_write(files, "/images", bytes);
    return error_of([&] { idx_images(files, "/images"); });
  };
  const Error huge = error_reading_images("\0\0\x08\x03"s + std::string(12, '\xff'));
  EXPECT_EQ(huge.code(), ErrorCode::kDataLoss);
  EXPECT_NE(std::string(huge.what()).find("more than can be counted"), std::string::npos);
  // Fits 64 bits, not the file.
  const Error large =
      error_reading_images("\0\0\x08\x03"s + std::string(8, '\xff') + "\0\0\0\x01"s);
  EXPECT_EQ(large.code(), ErrorCode::kDataLoss);
}

TEST(Idx, ReadsAnEmptyArray) {
  io::MemoryFileSystem files;
  io::atomic_write(files, "/labels", "\0\0\x08\x01\0\0\0\0"s);
  EXPECT_EQ(idx_labels(files, "/labels").numel(), 0);
}

TEST(Idx, RefusesAMissingFile) {
  io::MemoryFileSystem files;
  EXPECT_EQ(error_of([&] { idx_labels(files, "/none"); }).code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace brigade::input
