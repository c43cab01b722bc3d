#include "brigade/io/read_at_most.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/base/error.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::io {
namespace {

std::string refusal(const FileSystem& files, std::uint64_t most, const Path& path = "/file") {
  try {
    read_at_most(files, path, most);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "none";
}

TEST(ReadAtMost, ReadsTheWholeFile) {
  MemoryFileSystem files;
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 100'000}) {
    const std::string content(size, 'x');
    atomic_write(files, "/file", content);
    EXPECT_EQ(read_at_most(files, "/file", 100'000), content);
    EXPECT_EQ(read_at_most(files, "/file", size), content);
  }
}

TEST(ReadAtMost, RefusesALargerFile) {
  MemoryFileSystem files;
  atomic_write(files, "/file", std::string(2048, 'x'));
  EXPECT_EQ(refusal(files, 2047),
            "/file has 2.0 KiB; such a file has at most 2.0 KiB: is it the right one?");
  EXPECT_NE(refusal(files, 0), "none");
}

TEST(ReadAtMost, LimitsAFileThatReportsSizeZero) {
  const auto files = posix_file_system();
  const Path path = "/proc/self/maps";
  if (!files->exists(path)) GTEST_SKIP() << "no /proc here";
  ASSERT_EQ(files->info(path)->size, 0u);
  EXPECT_EQ(refusal(*files, 1 << 20, path), "none");
  EXPECT_THAT(refusal(*files, 10, path), testing::HasSubstr("has 11 B"));
}

TEST(ReadAtMost, AMissingFileIsNotFound) {
  try {
    read_at_most(MemoryFileSystem(), "/none", 10);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

}  // namespace
}  // namespace brigade::io
