#include "brigade/io/record_writer.h"

#include <gtest/gtest.h>

#include <string>

#include "brigade/base/error.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::io {
namespace {

// What TensorFlow's TFRecordWriter writes for the records "abc" and "".
const std::string kAbc(
    "\x03\x00\x00\x00\x00\x00\x00\x00\xb0\x99\x49\x0e"
    "abc"
    "\x6e\x57\xf1\x21",
    19);
const std::string kEmpty("\x00\x00\x00\x00\x00\x00\x00\x00\x29\x03\x98\x07\xd8\xea\x82\xa2", 16);

class RecordWriterTest : public testing::Test {
 protected:
  RecordWriter writer(RecordWriterOptions options = {}) {
    return RecordWriter(files_.create("/records", CreateMode::kTruncate), options);
  }
  std::string content() const { return files_.read("/records"); }

  std::shared_ptr<MemoryFileSystem> memory_ = std::make_shared<MemoryFileSystem>();
  FaultyFileSystem files_{memory_};
};

TEST_F(RecordWriterTest, FramesRecordsAsTensorFlowDoes) {
  RecordWriter records = writer();
  records.write(as_bytes("abc"));
  records.write({});
  records.close();
  EXPECT_EQ(content(), kAbc + kEmpty);
}

TEST_F(RecordWriterTest, BuffersRecordsUntilFlushed) {
  RecordWriter records = writer();
  records.write(as_bytes("abc"));
  EXPECT_EQ(content(), "");
  records.flush();
  EXPECT_EQ(content(), kAbc);
}

TEST_F(RecordWriterTest, WritesByItselfOnceTheBufferIsFull) {
  RecordWriter records = writer({.buffer_bytes = 20});
  records.write(as_bytes("abc"));
  EXPECT_EQ(content(), "");
  records.write(as_bytes("abc"));
  EXPECT_EQ(content(), kAbc + kAbc);
}

TEST_F(RecordWriterTest, PiecesAreTheSameRecordAsTheirBytes) {
  std::string text(200'000, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  BytePieces pieces;
  for (const std::size_t size : {1u, 70'000u, 0u, 3u, 129'996u})
    pieces.append(text.substr(pieces.size(), size));
  ASSERT_EQ(pieces.joined(), text);
  RecordWriter records = writer();
  records.write_pieces("abc");
  records.write_pieces({});
  records.write_pieces(pieces);
  records.close();
  const std::string in_pieces = content();
  RecordWriter others = writer();
  others.write(as_bytes("abc"));
  others.write({});
  others.write(as_bytes(text));
  others.close();
  EXPECT_TRUE(in_pieces == content());
  EXPECT_TRUE(in_pieces.starts_with(kAbc + kEmpty));
}

TEST_F(RecordWriterTest, LongRecordsAreWrittenInTheirOrder) {
  RecordWriter records = writer({.buffer_bytes = 1 << 20});
  const std::string text(100'000, 'y');
  records.write(as_bytes("abc"));
  records.write(as_bytes(text));
  records.write(as_bytes("abc"));
  records.close();
  EXPECT_EQ(content().size(), 2 * kAbc.size() + 16 + text.size());
  EXPECT_TRUE(content().starts_with(kAbc));
  EXPECT_TRUE(content().ends_with(kAbc));
}

TEST_F(RecordWriterTest, SyncedRecordsSurviveAMachineCrash) {
  RecordWriter records = writer();
  memory_->sync_directory("/");
  records.write(as_bytes("abc"));
  records.sync();
  records.write(as_bytes("abc"));
  records.flush();
  memory_->drop_unsynced();
  EXPECT_EQ(content(), kAbc);
}

TEST_F(RecordWriterTest, DestructionFlushes) {
  writer().write(as_bytes("abc"));
  EXPECT_EQ(content(), kAbc);
}

TEST_F(RecordWriterTest, ClosesOnce) {
  RecordWriter records = writer();
  records.close();
  EXPECT_NO_THROW(records.close());
  EXPECT_THROW(records.write({}), Error);
}

TEST_F(RecordWriterTest, IsUnusableAfterAnError) {
  RecordWriter records = writer();
  records.write(as_bytes("abc"));
  files_.inject({.code = ErrorCode::kDataLoss});
  EXPECT_THROW(records.flush(), Error);
  const std::string torn = content();
  for (int i = 0; i < 2; ++i) {
    try {
      records.write(as_bytes("abc"));
      FAIL() << "did not throw";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    }
  }
  EXPECT_NO_THROW(records.close());
  EXPECT_EQ(content(), torn);  // nothing is written after an incomplete record
}

TEST(RecordWriter, NeedsAFile) {
  EXPECT_THROW(RecordWriter(nullptr), Error);
}

}  // namespace
}  // namespace brigade::io
