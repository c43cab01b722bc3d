#include "brigade/io/testing/faulty_file_system.h"

#include <gtest/gtest.h>

#include "brigade/io/testing/memory_file_system.h"

namespace brigade::io {
namespace {

class FaultyFileSystemTest : public testing::Test {
 protected:
  FaultyFileSystem files_{std::make_shared<MemoryFileSystem>()};
};

TEST_F(FaultyFileSystemTest, CountsChangesButNotReads) {
  const auto file = files_.create("a", CreateMode::kTruncate);
  file->write(as_bytes("x"));
  file->sync();
  file->close();
  files_.rename("a", "b");
  files_.create_directories("c");
  files_.sync_directory("/");
  files_.remove("c");
  EXPECT_EQ(files_.read("b"), "x");
  EXPECT_EQ(files_.list("/").size(), 1u);
  EXPECT_TRUE(files_.exists("b"));
  EXPECT_EQ(files_.operations(), 8u);
}

TEST_F(FaultyFileSystemTest, FailsOnceAtThePlannedOperation) {
  files_.inject({.after = 1, .code = ErrorCode::kPermissionDenied});
  files_.create_directories("a");
  try {
    files_.create_directories("b");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kPermissionDenied);
  }
  EXPECT_FALSE(files_.exists("b"));
  EXPECT_NO_THROW(files_.create_directories("b"));
}

TEST_F(FaultyFileSystemTest, FailsPermanentlyUntilHealed) {
  files_.inject({.length = FaultLength::kEverAfter});
  for (int i = 0; i < 3; ++i) EXPECT_THROW(files_.create_directories("a"), Error);
  files_.heal();
  EXPECT_NO_THROW(files_.create_directories("a"));
}

TEST_F(FaultyFileSystemTest, AFailedWriteIsTorn) {
  const auto file = files_.create("a", CreateMode::kTruncate);
  files_.inject({});
  EXPECT_THROW(file->write(as_bytes("abcdef")), Error);
  EXPECT_EQ(files_.read("a"), "abc");
}

}  // namespace
}  // namespace brigade::io
