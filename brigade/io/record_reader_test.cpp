#include "brigade/io/record_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "brigade/base/error.h"
#include "brigade/io/record_writer.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::io {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string framed(std::initializer_list<std::string_view> records) {
  MemoryFileSystem files;
  RecordWriter writer(files.create("/records", CreateMode::kTruncate));
  for (const std::string_view record : records) writer.write(as_bytes(record));
  writer.close();
  return files.read("/records");
}

class RecordReaderTest : public testing::Test {
 protected:
  void append(std::string_view bytes) { file_->write(as_bytes(bytes)); }
  RecordReader reader(RecordReaderOptions options = {}) {
    return RecordReader(files_, "/records", options);
  }
  static ErrorCode refusal(RecordReader& records, std::string_view words) {
    try {
      records.next();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("/records"), HasSubstr(std::string(words))));
      return error.code();
    }
    ADD_FAILURE() << "did not throw";
    return ErrorCode::kInternal;
  }

  MemoryFileSystem files_;
  std::unique_ptr<WritableFile> file_ = files_.create("/records", CreateMode::kTruncate);
};

TEST_F(RecordReaderTest, ReadsWhatWasWritten) {
  const std::string large(3'000'000, 'x');
  append(framed({"one", "", large, "two"}));
  RecordReader records = reader();
  EXPECT_EQ(records.next(), "one");
  EXPECT_EQ(records.offset(), 19u);
  EXPECT_EQ(records.next(), "");
  EXPECT_EQ(records.next(), large);
  EXPECT_EQ(records.next(), "two");
  EXPECT_EQ(records.next(), std::nullopt);
  EXPECT_FALSE(records.is_cut_short());
  EXPECT_EQ(records.offset(), files_.info("/records")->size);
}

TEST_F(RecordReaderTest, ATruncatedFileGivesItsCompleteRecords) {
  const std::string whole = framed({"one", "two"});
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    file_ = files_.create("/records", CreateMode::kTruncate);
    append(whole.substr(0, size));
    RecordReader records = reader();
    std::size_t count = 0;
    while (records.next()) ++count;
    ASSERT_EQ(count, size / 19) << size;
    ASSERT_EQ(records.is_cut_short(), size % 19 != 0) << size;
    ASSERT_EQ(records.offset(), 19 * count);
  }
}

TEST_F(RecordReaderTest, ContinuesWhenTheFileGrows) {
  const std::string whole = framed({"one", "two"});
  RecordReader records = reader();
  EXPECT_EQ(records.next(), std::nullopt);
  append(whole.substr(0, 25));
  EXPECT_EQ(records.next(), "one");
  EXPECT_EQ(records.next(), std::nullopt);
  EXPECT_TRUE(records.is_cut_short());
  append(whole.substr(25));
  EXPECT_EQ(records.next(), "two");
  EXPECT_FALSE(records.is_cut_short());
}

TEST_F(RecordReaderTest, EveryFlippedBitIsFound) {
  const std::string whole = framed({"one", "two"});
  for (std::size_t bit = 19 * 8; bit < whole.size() * 8; ++bit) {
    std::string broken = whole;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    file_ = files_.create("/records", CreateMode::kTruncate);
    append(broken);
    RecordReader records = reader();
    EXPECT_EQ(records.next(), "one");
    ASSERT_EQ(refusal(records, "at byte 19"), ErrorCode::kDataLoss) << bit;
    ASSERT_EQ(refusal(records, "at byte 19"), ErrorCode::kDataLoss) << "the second time";
  }
}

TEST_F(RecordReaderTest, RefusesRecordsLongerThanAllowed) {
  append(framed({"1234", "12345"}));
  RecordReader records = reader({.max_record_bytes = 4});
  EXPECT_EQ(records.next(), "1234");
  EXPECT_EQ(refusal(records, "has 5 bytes"), ErrorCode::kResourceExhausted);
}

TEST_F(RecordReaderTest, SkipsTheRecordsThatItWouldRead) {
  const std::string large(3'000'000, 'x');
  append(framed({"one", large, "two"}));
  RecordReader records = reader();
  EXPECT_TRUE(records.skip());
  EXPECT_EQ(records.offset(), 19u);
  EXPECT_TRUE(records.skip());
  EXPECT_EQ(records.next(), "two");
  EXPECT_FALSE(records.skip());
  EXPECT_FALSE(records.is_cut_short());
}

TEST_F(RecordReaderTest, SkipGetsPastBrokenBytesButNotABrokenLength) {
  std::string broken = framed({"one", "two", "three"});
  broken[13] = '?';
  broken[2 * 19] = '?';
  append(broken);
  RecordReader records = reader();
  EXPECT_EQ(refusal(records, "bytes of the record at byte 0"), ErrorCode::kDataLoss);
  EXPECT_TRUE(records.skip());
  EXPECT_EQ(records.next(), "two");
  EXPECT_THROW(records.skip(), Error);
  EXPECT_EQ(records.offset(), 38u);
}

TEST_F(RecordReaderTest, SkipGetsPastALongRecordButNotAnIncompleteOne) {
  append(framed({"12345", "x"}) + framed({std::string(2'000'000, 'y')}).substr(0, 1'999'999));
  RecordReader records = reader({.max_record_bytes = 4, .buffer_bytes = 16});
  EXPECT_EQ(refusal(records, "has 5 bytes"), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(records.skip());
  EXPECT_EQ(records.next(), "x");
  EXPECT_FALSE(records.skip());
  EXPECT_TRUE(records.is_cut_short());
  EXPECT_EQ(records.offset(), 38u);
}

TEST_F(RecordReaderTest, SeeksToARecord) {
  append(framed({"one", "two"}));
  RecordReader records = reader();
  records.seek(19);
  EXPECT_EQ(records.next(), "two");
  records.seek(0);
  EXPECT_EQ(records.next(), "one");
}

TEST_F(RecordReaderTest, ReadsCompressedFiles) {
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    RecordWriter writer(compressed(files_.create("/records", CreateMode::kTruncate), compression));
    for (const std::string_view record : {"one", "two"}) writer.write(as_bytes(record));
    writer.close();
    RecordReader records = reader({.compression = compression});
    EXPECT_EQ(records.next(), "one");
    EXPECT_EQ(records.next(), "two");
    EXPECT_EQ(records.next(), std::nullopt);
    EXPECT_FALSE(records.is_cut_short());
  }
}

TEST_F(RecordReaderTest, AMissingFileIsNotFound) {
  EXPECT_THROW(RecordReader(files_, "/missing"), Error);
}

}  // namespace
}  // namespace brigade::io
