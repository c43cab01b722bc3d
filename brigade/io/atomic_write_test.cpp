#include "brigade/io/atomic_write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::io {
namespace {

using testing::AnyOf;
using testing::ElementsAre;

TEST(AtomicWrite, MakesAndReplacesAFile) {
  MemoryFileSystem files;
  atomic_write(files, "file", "one");
  EXPECT_EQ(files.read("file"), "one");
  atomic_write(files, "file", std::string("two, longer"));
  EXPECT_EQ(files.read("file"), "two, longer");
  EXPECT_THAT(files.list("/"), ElementsAre("file"));
}

TEST(AtomicWrite, SurvivesACrashAfterItReturned) {
  MemoryFileSystem files;
  files.create_directories("folder");
  atomic_write(files, "folder/file", "one");
  files.drop_unsynced();
  EXPECT_EQ(files.read("folder/file"), "one");
}

TEST(AtomicWrite, RefusesPathsThatNameNoFile) {
  MemoryFileSystem files;
  for (const char* path : {"", "/", "folder/", ".", ".."}) {
    EXPECT_THROW(atomic_write(files, path, "x"), Error) << path;
  }
}

/// The operations of one call, found by counting.
std::size_t operations_of_one_write() {
  FaultyFileSystem files(std::make_shared<MemoryFileSystem>());
  atomic_write(files, "file", "new content");
  return files.operations();
}

TEST(AtomicWrite, LeavesOldOrNewAndNothingElseAfterAnyFailure) {
  const std::size_t operations = operations_of_one_write();
  ASSERT_GE(operations, 6u);
  for (std::size_t after = 0; after < operations; ++after) {
    FaultyFileSystem files(std::make_shared<MemoryFileSystem>());
    atomic_write(files, "file", "old");
    files.inject({.after = after, .code = ErrorCode::kResourceExhausted});
    try {
      atomic_write(files, "file", "new content");
      ADD_FAILURE() << "no error though operation " << after << " failed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    }
    EXPECT_THAT(files.list("/"), ElementsAre("file")) << after;
    const bool is_last =
        after + 1 == operations;  // the folder's sync: the file is replaced by then
    EXPECT_EQ(files.read("file"), is_last ? "new content" : "old") << after;
  }
}

TEST(AtomicWrite, LeavesOldOrNewAfterAnyMachineCrash) {
  const std::size_t operations = operations_of_one_write();
  for (std::size_t after = 0; after <= operations; ++after) {
    const auto memory = std::make_shared<MemoryFileSystem>();
    FaultyFileSystem files(memory);
    atomic_write(files, "file", "old");
    files.inject({.after = after, .length = FaultLength::kEverAfter});
    bool has_returned = false;
    try {
      atomic_write(files, "file", "new content");
      has_returned = true;
    } catch (const Error&) {
    }
    const std::string before_the_crash = memory->read("file");
    EXPECT_THAT(before_the_crash, AnyOf("old", "new content"));
    memory->drop_unsynced();
    EXPECT_THAT(memory->read("file"), AnyOf("old", "new content")) << after;
    if (has_returned) {
      EXPECT_EQ(memory->read("file"), "new content");
    }
  }
}

TEST(AtomicWrite, ToleratesLeftoversOfACrash) {
  const auto memory = std::make_shared<MemoryFileSystem>();
  FaultyFileSystem files(memory);
  files.inject({.after = 2, .length = FaultLength::kEverAfter});
  EXPECT_THROW(atomic_write(files, "file", "one"), Error);
  ASSERT_EQ(memory->list("/").size(), 1u);  // even its removal failed
  files.heal();
  atomic_write(files, "file", "two");
  EXPECT_EQ(files.read("file"), "two");
}

TEST(AtomicWrite, WorksOnTheDiskFromManyThreads) {
  std::string pattern = (std::filesystem::temp_directory_path() / "brigade-io-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const Path folder = pattern;
  const auto files = posix_file_system();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::string text(1000 * static_cast<std::size_t>(i + 1), static_cast<char>('a' + i));
      for (int n = 0; n < 5; ++n) atomic_write(*files, folder / "file", text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = files->read(folder / "file");
  EXPECT_THAT(files->list(folder), ElementsAre("file"));
  EXPECT_EQ(text, std::string(1000 * static_cast<std::size_t>(text[0] - 'a' + 1), text[0]));
  std::filesystem::remove_all(folder);
}

TEST(AtomicWrite, AMissingFolderIsNotFound) {
  try {
    atomic_write(*posix_file_system(), "/no/such/folder/file", "x");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("/no/such/folder"));
  }
}

}  // namespace
}  // namespace brigade::io
