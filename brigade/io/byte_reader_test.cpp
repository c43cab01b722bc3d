#include "brigade/io/byte_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::io {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ByteReaderTest : public testing::TestWithParam<Compression> {
 protected:
  ByteReader reader(std::string_view text, std::size_t buffer_bytes = 4) {
    const auto file =
        compressed(files_.create("/file", CreateMode::kTruncate), GetParam(), {.level = 1});
    file->write(as_bytes(text));
    file->close();
    return ByteReader(files_, "/file", {.compression = GetParam(), .buffer_bytes = buffer_bytes});
  }
  static std::vector<std::string> lines_of(ByteReader reader) {
    std::vector<std::string> lines;
    while (const auto line = reader.line(100)) lines.emplace_back(*line);
    return lines;
  }

  MemoryFileSystem files_;
};

INSTANTIATE_TEST_SUITE_P(Packed, ByteReaderTest,
                         testing::Values(Compression::kNone, Compression::kGzip,
                                         Compression::kZlib));

TEST_P(ByteReaderTest, PeeksAcrossItsBuffer) {
  ByteReader bytes = reader("one two three");
  EXPECT_EQ(bytes.peek(2).substr(0, 2), "on");
  bytes.consume(1);
  EXPECT_EQ(bytes.peek(9).substr(0, 9), "ne two th");
  bytes.consume(9);
  EXPECT_EQ(bytes.offset(), 10u);
  EXPECT_EQ(bytes.peek(1'000'000'000), "ree") << "only existing bytes take memory";
  bytes.consume(3);
  EXPECT_EQ(bytes.peek(1), "");
  EXPECT_EQ(bytes.offset(), 13u);
}

TEST_P(ByteReaderTest, SeeksAndSkipsToTheSameOffsets) {
  const std::string text = "0123456789abcdefghijklmnopqrstuvwxyz";
  for (std::size_t from : {0, 1, 3, 4, 5, 20, 36}) {
    for (std::size_t to = 0; to <= text.size(); ++to) {
      ByteReader bytes = reader(text);
      bytes.seek(from);
      ASSERT_EQ(bytes.offset(), from);
      bytes.seek(to);
      ASSERT_EQ(bytes.offset(), to);
      ASSERT_EQ(bytes.peek(2).substr(0, 2), text.substr(to, 2));
      if (to < from) continue;
      bytes.seek(from);
      ASSERT_TRUE(bytes.skip(to - from));
      ASSERT_EQ(bytes.offset(), to);
      ASSERT_EQ(bytes.peek(2).substr(0, 2), text.substr(to, 2));
    }
  }
}

TEST_P(ByteReaderTest, DoesNotMovePastTheEnd) {
  ByteReader bytes = reader("0123456789");
  bytes.seek(3);
  EXPECT_FALSE(bytes.skip(8));
  EXPECT_FALSE(bytes.skip(800));
  EXPECT_EQ(bytes.offset(), 3u);
  try {
    bytes.seek(11);
    ADD_FAILURE() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfRange);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("/file"), HasSubstr("no byte 10")));
  }
  EXPECT_EQ(bytes.offset(), 3u);
  EXPECT_EQ(bytes.peek(1).substr(0, 1), "3");
}

TEST_P(ByteReaderTest, SplitsLines) {
  EXPECT_THAT(lines_of(reader("one\ntwo\r\n\n\r\nlone\rreturn\nlast")),
              ElementsAre("one", "two", "", "", "lone\rreturn", "last"));
  EXPECT_THAT(lines_of(reader("one\n")), ElementsAre("one"));
  EXPECT_THAT(lines_of(reader("")), ElementsAre());
  EXPECT_THAT(lines_of(reader("\n\n", 1)), ElementsAre("", ""));
}

TEST_P(ByteReaderTest, SkipsTheLinesThatItWouldRead) {
  ByteReader bytes = reader("one\na rather long line\r\n\nlast");
  int count = 0;
  while (bytes.skip_line()) ++count;
  EXPECT_EQ(count, 4);
}

TEST_P(ByteReaderTest, RefusesLinesLongerThanAllowed) {
  ByteReader bytes = reader("1234\r\n12345\nnext");
  EXPECT_EQ(bytes.line(4), "1234");
  try {
    bytes.line(4);
    ADD_FAILURE() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("/file"), HasSubstr("at byte 6"), HasSubstr("4")));
  }
  EXPECT_TRUE(bytes.skip_line());
  EXPECT_EQ(bytes.line(4), "next");
}

TEST(ByteReader, ContinuesWhenAPlainFileGrows) {
  MemoryFileSystem files;
  const auto file = files.create("/file", CreateMode::kTruncate);
  ByteReader bytes(files, "/file");
  EXPECT_EQ(bytes.peek(1), "");
  file->write(as_bytes("more"));
  EXPECT_EQ(bytes.peek(9), "more");
}

}  // namespace
}  // namespace brigade::io
