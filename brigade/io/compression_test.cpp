#include "brigade/io/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "brigade/base/error.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::io {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string long_text() {
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += std::to_string(i * 7919 % 10'007);
  return text;
}

class CompressionTest : public testing::Test {
 protected:
  void write(std::string_view bytes) {
    files_.create("/file", CreateMode::kTruncate)->write(as_bytes(bytes));
  }
  std::string compressed_file(std::string_view text, Compression compression) {
    const auto file = compressed(files_.create("/file", CreateMode::kTruncate), compression);
    for (; !text.empty(); text.remove_prefix(std::min<std::size_t>(text.size(), 1000))) {
      file->write(as_bytes(text.substr(0, 1000)));
    }
    file->close();
    return files_.read("/file");
  }
  std::unique_ptr<ReadableFile> open(Compression compression) {
    return decompressed(files_.open("/file"), "/file", compression);
  }
  std::string content(Compression compression) {
    const auto file = open(compression);
    std::string content, piece(777, '?');
    while (const std::size_t got = file->read(std::as_writable_bytes(std::span(piece)))) {
      content.append(piece, 0, got);
    }
    return content;
  }
  void expect_broken(Compression compression, std::string_view why) {
    try {
      content(compression);
      ADD_FAILURE() << "did not throw";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("/file"), HasSubstr(std::string(why))));
    }
  }

  MemoryFileSystem files_;
};

TEST_F(CompressionTest, ReadsWhatWasWritten) {
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    for (const std::string& text : {std::string(), std::string("short"), long_text()}) {
      compressed_file(text, compression);
      EXPECT_EQ(content(compression), text);
    }
    EXPECT_LT(compressed_file(long_text(), compression).size(), long_text().size() / 2);
  }
  EXPECT_EQ(compressed_file("plain", Compression::kNone), "plain");
}

TEST_F(CompressionTest, AutoDetectsGzipByItsSignature) {
  compressed_file("text", Compression::kGzip);
  EXPECT_EQ(content(Compression::kAuto), "text");
  for (const std::string_view plain : {"", "x", "plain text"}) {
    write(plain);
    EXPECT_EQ(content(Compression::kAuto), plain);
  }
}

TEST_F(CompressionTest, SyncedContentCanBeRead) {
  const auto file = compressed(files_.create("/file", CreateMode::kTruncate), Compression::kGzip);
  file->write(as_bytes("one"));
  file->sync();
  std::string piece(3, '?');
  EXPECT_EQ(open(Compression::kGzip)->read(std::as_writable_bytes(std::span(piece))), 3u);
  EXPECT_EQ(piece, "one");
  expect_broken(Compression::kGzip, "cut short");
}

TEST_F(CompressionTest, ReturnsTheContentBeforeACorruptByte) {
  std::string broken = compressed_file(long_text(), Compression::kGzip);
  broken.resize(broken.size() / 2);
  write(broken);
  const auto file = open(Compression::kGzip);
  std::string piece(1 << 20, '?');
  const std::size_t got = file->read(std::as_writable_bytes(std::span(piece)));
  EXPECT_GT(got, 0u);
  EXPECT_EQ(piece.substr(0, got), long_text().substr(0, got));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(file->read(std::as_writable_bytes(std::span(piece))), Error);
  }
  expect_broken(Compression::kGzip, "cut short");
}

TEST_F(CompressionTest, RefusesBrokenBytes) {
  std::string sum = compressed_file(long_text(), Compression::kZlib);
  sum.back() ^= 1;
  write(sum);
  expect_broken(Compression::kZlib, "incorrect data check");
  write("no zlib at all");
  expect_broken(Compression::kZlib, "broken zlib file");
  write(compressed_file("x", Compression::kZlib) + "more");
  expect_broken(Compression::kZlib, "followed by");
  write("");
  expect_broken(Compression::kGzip, "cut short");
}

TEST_F(CompressionTest, SeeksInBothDirections) {
  const std::string text = long_text();
  compressed_file(text, Compression::kGzip);
  const auto file = open(Compression::kGzip);
  std::string piece(5, '?');
  for (const std::size_t offset : {100'000, 7, 0, 70'000, 70'005}) {
    file->seek(offset);
    file->read(std::as_writable_bytes(std::span(piece)));
    EXPECT_EQ(piece, text.substr(offset, 5));
  }
  file->seek(1'000'000'000);
  EXPECT_EQ(file->read(std::as_writable_bytes(std::span(piece))), 0u);
}

TEST_F(CompressionTest, RefusesToWriteUnknownCompression) {
  EXPECT_THROW(compressed_file("", Compression::kAuto), Error);
  EXPECT_THROW(
      compressed(files_.create("/file", CreateMode::kTruncate), Compression::kGzip, {.level = 10}),
      Error);
}

std::string gzip(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string compressed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

/// Text that does not repeat and does not fit into one piece.
std::string random_text() {
  std::string text;
  std::uint32_t state = 1;
  while (text.size() < 300'000) {
    state = state * 1664525u + 1013904223u;
    text += static_cast<char>(state >> 24);
  }
  return text;
}

std::string gunzip(std::string_view compressed) {
  MemoryFileSystem files;
  files.create("/images.gz", CreateMode::kTruncate)->write(as_bytes(compressed));
  const auto file = decompressed(files.open("/images.gz"), "/images.gz", Compression::kGzip);
  std::string content, piece(1 << 16, '?');
  while (const std::size_t got = file->read(std::as_writable_bytes(std::span(piece)))) {
    content.append(piece, 0, got);
  }
  return content;
}

void expect_refusal(std::string_view compressed, std::string_view said) {
  try {
    gunzip(compressed);
    ADD_FAILURE() << "accepted " << compressed.size() << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("/images.gz"));
    EXPECT_THAT(error.what(), HasSubstr(std::string(said)));
  }
}

TEST(Gunzip, RestoresTheContent) {
  for (const std::string& text : {std::string(), std::string("hello"), std::string(1'000'000, 'x'),
                                  std::string(1 << 16, 'y'), random_text()}) {
    EXPECT_EQ(gunzip(gzip(text)), text);
  }
}

TEST(Gunzip, ReadsSeveralMembers) {
  EXPECT_EQ(gunzip(gzip("one ") + gzip("") + gzip("two")), "one two");
  EXPECT_EQ(gunzip(gzip("one") + std::string(512, '\0')), "one");
}

TEST(Gunzip, RefusesOtherFiles) {
  expect_refusal("", "cut short");
  expect_refusal("\x1f", "cut short");
  expect_refusal("<html>not found</html>", "incorrect header");
}

TEST(Gunzip, RefusesEveryTruncation) {
  const std::string whole = gzip("some text, some more text, and some other text");
  for (std::size_t size = 2; size < whole.size(); ++size) {
    expect_refusal(whole.substr(0, size), "cut short");
  }
  const std::string large = gzip(random_text());
  expect_refusal(large.substr(0, large.size() / 2), "cut short");
  expect_refusal(gzip("one") + gzip("two").substr(0, 15), "cut short");
}

TEST(Gunzip, RefusesBrokenBytes) {
  std::string wrong_checksum = gzip("hello");
  wrong_checksum[wrong_checksum.size() - 8] ^= 1;
  expect_refusal(wrong_checksum, "incorrect data check");
  std::string wrong_length = gzip("hello");
  wrong_length[wrong_length.size() - 1] ^= 1;
  expect_refusal(wrong_length, "incorrect length check");
  std::string wrong_method = gzip("hello");
  wrong_method[2] = 7;
  expect_refusal(wrong_method, "broken gzip");
}

TEST(Gunzip, RefusesDataAfterTheEnd) {
  expect_refusal(gzip("one") + "garbage", "followed by");
}

}  // namespace
}  // namespace brigade::io
