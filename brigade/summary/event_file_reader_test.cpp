#include "brigade/summary/event_file_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/io/record_writer.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/summary/event.h"

namespace brigade::summary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class EventFileReaderTest : public testing::Test {
 protected:
  std::string framed(std::initializer_list<std::string> records) {
    io::RecordWriter writer(files_.create("/scratch", io::CreateMode::kTruncate));
    for (const std::string& record : records) writer.write(io::as_bytes(record));
    writer.close();
    return files_.read("/scratch");
  }

  const Event first_{1, 0, FileVersion{"brain.Event:2"}};
  const Event second_{2, 5, Summary{{{"loss", Scalar{1}}}}};
  io::MemoryFileSystem files_;
  std::unique_ptr<io::WritableFile> file_ = files_.create("/e", io::CreateMode::kTruncate);
};

TEST_F(EventFileReaderTest, ReadsATruncatedFileAndReportsIt) {
  const std::string whole = framed({encode_event(first_), encode_event(second_)});
  file_->write(io::as_bytes(whole.substr(0, whole.size() - 1)));
  EventFileReader reader(files_, "/e");
  EXPECT_EQ(reader.next(), first_);
  const std::uint64_t end = reader.offset();
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_TRUE(reader.is_cut_short());
  EXPECT_EQ(reader.offset(), end);
  file_->write(io::as_bytes(whole.substr(whole.size() - 1)));
  EXPECT_EQ(reader.next(), second_);
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_FALSE(reader.is_cut_short());
}

TEST_F(EventFileReaderTest, NamesTheFileAndTheOffsetOfAnInvalidRecord) {
  file_->write(io::as_bytes(framed({encode_event(first_), "\xff"})));
  EventFileReader reader(files_, "/e");
  EXPECT_EQ(reader.next(), first_);
  const std::string offset = std::to_string(reader.offset());
  try {
    reader.next();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_THAT(error.what(), HasSubstr("/e: the record at byte " + offset));
  }
}

TEST_F(EventFileReaderTest, FindsEventFilesInTheirOrder) {
  files_.create_directories("/run");
  for (const char* name : {"events.out.tfevents.0000000002.h", "checkpoint",
                           "events.out.tfevents.0000000001.h", "x.tfevents"}) {
    files_.create(io::Path("/run") / name, io::CreateMode::kTruncate);
  }
  EXPECT_THAT(event_files(files_, "/run"),
              ElementsAre("/run/events.out.tfevents.0000000001.h",
                          "/run/events.out.tfevents.0000000002.h", "/run/x.tfevents"));
}

}  // namespace
}  // namespace brigade::summary
