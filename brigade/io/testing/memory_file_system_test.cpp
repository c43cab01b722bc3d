#include "brigade/io/testing/memory_file_system.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::io {
namespace {

TEST(MemoryFileSystem, SpellingsOfOnePathAreOneFile) {
  MemoryFileSystem files;
  files.create_directories("a");
  files.create("a/file", CreateMode::kTruncate)->write(as_bytes("x"));
  EXPECT_EQ(files.read("/a/./b/../file"), "x");
}

TEST(MemoryFileSystem, DropLosesUnsyncedContent) {
  MemoryFileSystem files;
  const auto file = files.create("file", CreateMode::kTruncate);
  file->write(as_bytes("one "));
  file->sync();
  files.sync_directory("/");
  file->write(as_bytes("two"));
  EXPECT_EQ(files.read("file"), "one two");
  files.drop_unsynced();
  EXPECT_EQ(files.read("file"), "one ");
}

TEST(MemoryFileSystem, DropLosesUnsyncedNames) {
  MemoryFileSystem files;
  const auto file = files.create("file", CreateMode::kTruncate);
  file->write(as_bytes("one"));
  file->sync();
  files.drop_unsynced();
  EXPECT_FALSE(files.exists("file"));
}

TEST(MemoryFileSystem, DropUndoesAnUnsyncedRename) {
  MemoryFileSystem files;
  for (const char* name : {"old", "new"}) {
    const auto file = files.create(name, CreateMode::kTruncate);
    file->write(as_bytes(name));
    file->sync();
  }
  files.sync_directory("/");
  files.rename("new", "old");
  EXPECT_EQ(files.read("old"), "new");
  files.drop_unsynced();
  EXPECT_EQ(files.read("old"), "old");
  EXPECT_EQ(files.read("new"), "new");
}

TEST(MemoryFileSystem, DropUndoesAnUnsyncedTruncation) {
  MemoryFileSystem files;
  const auto file = files.create("file", CreateMode::kTruncate);
  file->write(as_bytes("one"));
  file->sync();
  files.sync_directory("/");
  files.create("file", CreateMode::kTruncate);
  EXPECT_EQ(files.read("file"), "");
  files.drop_unsynced();
  EXPECT_EQ(files.read("file"), "one");
}

TEST(MemoryFileSystem, AFailedExclusiveCreationCreatesNothing) {
  MemoryFileSystem files;
  EXPECT_THROW(files.create("no/such", CreateMode::kExclusive), Error);
  EXPECT_TRUE(files.list("/").empty());
}

}  // namespace
}  // namespace brigade::io
