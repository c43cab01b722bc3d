#include "brigade/io/file_system.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/sanitizer.h"
#include "brigade/io/atomic_write.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void write_file(FileSystem& files, const Path& path, std::string_view text,
                CreateMode mode = CreateMode::kTruncate) {
  const auto file = files.create(path, mode);
  file->write(as_bytes(text));
  file->close();
}

std::string read_piece(ReadableFile& file, std::size_t size) {
  std::string piece(size, '?');
  piece.resize(file.read(std::as_writable_bytes(std::span(piece))));
  return piece;
}

ErrorCode code_of(const std::function<void()>& call, const Path& named) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(named.string()));
    return error.code();
  }
  ADD_FAILURE() << "did not throw";
  return ErrorCode::kInternal;
}

/// A temporary folder in a file system.
struct TestedFileSystem {
  std::shared_ptr<FileSystem> files;
  Path root;
};

TestedFileSystem posix_under_test() {
  std::string pattern = (std::filesystem::temp_directory_path() / "brigade-io-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw Error(ErrorCode::kUnavailable, pattern);
  return {posix_file_system(), pattern};
}

TestedFileSystem memory_under_test() {
  auto files = std::make_shared<MemoryFileSystem>();
  files->create_directories("/root");
  return {files, "/root"};
}

/// The contract of every file system.
class FileSystemContract : public testing::TestWithParam<TestedFileSystem (*)()> {
 protected:
  ~FileSystemContract() override {
    std::error_code ignored;
    if (root_ != "/root") std::filesystem::remove_all(root_, ignored);
  }
  Path at(std::string_view name) const { return root_ / name; }

  TestedFileSystem tested_ = GetParam()();
  FileSystem& files_ = *tested_.files;
  Path root_ = tested_.root;
};

INSTANTIATE_TEST_SUITE_P(Posix, FileSystemContract, testing::Values(posix_under_test));
INSTANTIATE_TEST_SUITE_P(Memory, FileSystemContract, testing::Values(memory_under_test));

TEST_P(FileSystemContract, ReadsWhatWasWritten) {
  const std::string binary("a\0b\n\xff", 5);
  for (const std::string& text : {std::string(), binary, std::string(200'001, 'z')}) {
    write_file(files_, at("file"), text);
    EXPECT_EQ(files_.read(at("file")), text);
    EXPECT_EQ(files_.info(at("file"))->size, text.size());
    EXPECT_EQ(files_.info(at("file"))->kind, FileKind::kFile);
  }
}

TEST_P(FileSystemContract, WritesInPieces) {
  const auto file = files_.create(at("file"), CreateMode::kTruncate);
  file->write(as_bytes("one "));
  file->sync();
  file->write(as_bytes(""));
  file->write(as_bytes("two"));
  file->close();
  EXPECT_EQ(files_.read(at("file")), "one two");
}

TEST_P(FileSystemContract, OpenReadsInPieces) {
  write_file(files_, at("file"), "one two");
  const auto file = files_.open(at("file"));
  EXPECT_EQ(read_piece(*file, 4), "one ");
  EXPECT_EQ(read_piece(*file, 0), "");
  EXPECT_EQ(read_piece(*file, 4), "two");
  EXPECT_EQ(read_piece(*file, 4), "");
}

TEST_P(FileSystemContract, AReaderSeeks) {
  write_file(files_, at("file"), "one two");
  const auto file = files_.open(at("file"));
  file->seek(4);
  EXPECT_EQ(read_piece(*file, 9), "two");
  file->seek(0);
  EXPECT_EQ(read_piece(*file, 3), "one");
  file->seek(99);
  EXPECT_EQ(read_piece(*file, 3), "") << "there is nothing after the end";
}

TEST_P(FileSystemContract, OpenContinuesWhenTheFileGrows) {
  const auto writer = files_.create(at("file"), CreateMode::kTruncate);
  const auto reader = files_.open(at("file"));
  EXPECT_EQ(read_piece(*reader, 9), "");
  writer->write(as_bytes("one"));
  EXPECT_EQ(read_piece(*reader, 9), "one");
  writer->write(as_bytes("two"));
  EXPECT_EQ(read_piece(*reader, 9), "two");
}

TEST_P(FileSystemContract, CreateExclusiveRefusesAnExistingFile) {
  write_file(files_, at("file"), "one", CreateMode::kExclusive);
  EXPECT_EQ(code_of([&] { files_.create(at("file"), CreateMode::kExclusive); }, at("file")),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(files_.read(at("file")), "one");
}

TEST_P(FileSystemContract, OverwritingKeepsTheRestOfTheFile) {
  write_file(files_, at("file"), "one and two");
  {
    const auto file = files_.create(at("file"), CreateMode::kOverwrite);
    file->write(as_bytes("O"));
    file->write(as_bytes("NE"));
    EXPECT_EQ(files_.read(at("file")), "ONE and two");
    file->write(as_bytes(" or more than before"));
    file->sync();
    file->close();
  }
  EXPECT_EQ(files_.read(at("file")), "ONE or more than before");
  write_file(files_, at("new"), "bytes", CreateMode::kOverwrite);
  EXPECT_EQ(files_.read(at("new")), "bytes");
}

TEST_P(FileSystemContract, MissingThingsAreNotFound) {
  EXPECT_EQ(code_of([&] { files_.read(at("x")); }, at("x")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { files_.open(at("x")); }, at("x")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { files_.list(at("x")); }, at("x")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { files_.rename(at("x"), at("y")); }, at("x")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { files_.sync_directory(at("x")); }, at("x")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { files_.create(at("x/y"), CreateMode::kTruncate); }, at("x/y")),
            ErrorCode::kNotFound);
  EXPECT_FALSE(files_.exists(at("x")));
  EXPECT_FALSE(files_.remove(at("x")));
}

TEST_P(FileSystemContract, FoldersAreNotFiles) {
  files_.create_directories(at("folder"));
  write_file(files_, at("file"), "x");
  EXPECT_EQ(code_of([&] { files_.read(at("folder")); }, at("folder")), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { files_.open(at("folder")); }, at("folder")), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { files_.create(at("folder"), CreateMode::kTruncate); }, at("folder")),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { files_.rename(at("file"), at("folder")); }, at("folder")),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(files_.info(at("folder"))->kind, FileKind::kDirectory);
}

TEST_P(FileSystemContract, RenameReplacesAFile) {
  write_file(files_, at("old"), "old");
  write_file(files_, at("new"), "new");
  files_.rename(at("new"), at("old"));
  EXPECT_EQ(files_.read(at("old")), "new");
  EXPECT_FALSE(files_.exists(at("new")));
  files_.rename(at("old"), at("old"));
  EXPECT_EQ(files_.read(at("old")), "new");
}

TEST_P(FileSystemContract, RenameMovesAFolderWithItsContent) {
  files_.create_directories(at("a/b"));
  write_file(files_, at("a/b/file"), "x");
  files_.rename(at("a"), at("c"));
  EXPECT_EQ(files_.read(at("c/b/file")), "x");
  EXPECT_FALSE(files_.exists(at("a")));
}

TEST_P(FileSystemContract, ListsNamesInOrder) {
  files_.create_directories(at("folder/inner"));
  for (const char* name : {"b", "a", "B"}) write_file(files_, at("folder") / name, "x");
  EXPECT_THAT(files_.list(at("folder")), ElementsAre("B", "a", "b", "inner"));
  EXPECT_THAT(files_.list(at("folder/inner")), ElementsAre());
}

TEST_P(FileSystemContract, CreateDirectoriesMayBeRepeated) {
  files_.create_directories(at("a/b/c"));
  files_.create_directories(at("a/b/c"));
  files_.create_directories(at("a"));
  EXPECT_TRUE(files_.exists(at("a/b/c")));
  files_.sync_directory(at("a/b"));
}

TEST_P(FileSystemContract, RemovesFilesAndEmptyFoldersOnly) {
  files_.create_directories(at("folder"));
  write_file(files_, at("folder/file"), "x");
  EXPECT_EQ(code_of([&] { files_.remove(at("folder")); }, at("folder")), ErrorCode::kAlreadyExists);
  EXPECT_TRUE(files_.remove(at("folder/file")));
  EXPECT_TRUE(files_.remove(at("folder")));
  EXPECT_FALSE(files_.exists(at("folder")));
}

TEST_P(FileSystemContract, MakesOneNewFolder) {
  files_.create_directory(at("folder"));
  EXPECT_EQ(files_.entry(at("folder"))->kind, FileKind::kDirectory);
  EXPECT_EQ(code_of([&] { files_.create_directory(at("folder")); }, at("folder")),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(code_of([&] { files_.create_directory(at("none/below")); }, at("none/below")),
            ErrorCode::kNotFound);
}

TEST_P(FileSystemContract, RemovesTheRequestedFiles) {
  files_.create_directories(at("folder/a-folder"));
  for (const char* name : {"folder/a-file", "folder/b-file"}) write_file(files_, at(name), "x");
  const auto is_a = [](std::string_view name) { return name.starts_with("a-"); };
  const FolderSweep sweep = files_.remove_files(at("folder"), is_a);
  EXPECT_TRUE(sweep.is_folder);
  EXPECT_THAT(sweep.left, ElementsAre("a-folder", "b-file"));
  EXPECT_THAT(files_.list(at("folder")), ElementsAre("a-folder", "b-file"));
  EXPECT_FALSE(files_.remove_files(at("folder/b-file"), is_a).is_folder);
  EXPECT_FALSE(files_.remove_files(at("none"), is_a).is_folder);
}

TEST_P(FileSystemContract, AHeldFolderIsUnchangedUntilItIsRemoved) {
  files_.create_directories(at("folder"));
  const auto held = files_.hold(at("folder"));
  EXPECT_TRUE(held->is_unchanged());
  files_.rename(at("folder"), at("moved"));
  EXPECT_FALSE(held->is_unchanged());
  files_.rename(at("moved"), at("folder"));
  EXPECT_TRUE(held->is_unchanged());
  EXPECT_EQ(code_of([&] { files_.hold(at("none")); }, at("none")), ErrorCode::kNotFound);
}

class PosixFileSystem : public testing::Test {
 protected:
  ~PosixFileSystem() override {
    std::error_code ignored;
    std::filesystem::remove_all(tested_.root, ignored);
  }
  TestedFileSystem tested_ = posix_under_test();
  FileSystem& files_ = *tested_.files;
};

TEST_F(PosixFileSystem, ErrorsNameTheReasonAndARemedy) {
  try {
    files_.read(tested_.root / "missing");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot read"));
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
    EXPECT_THAT(error.what(), HasSubstr("check the path"));
  }
}

TEST_F(PosixFileSystem, AFileInThePathIsAnInvalidArgument) {
  write_file(files_, tested_.root / "file", "x");
  const Path below = tested_.root / "file" / "x";
  EXPECT_EQ(code_of([&] { files_.read(below); }, below), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(files_.exists(below));
}

TEST_F(PosixFileSystem, AFullDeviceIsResourceExhausted) {
  if (!files_.exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const auto file = files_.create("/dev/full", CreateMode::kTruncate);
  EXPECT_EQ(code_of([&] { file->write(as_bytes("x")); }, "/dev/full"),
            ErrorCode::kResourceExhausted);
}

// Opening one for reading would wait for a writer, and vice versa.
TEST_F(PosixFileSystem, ANamedPipeIsRefusedWithoutWaiting) {
  const Path pipe = tested_.root / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::function<void()>& call :
       std::vector<std::function<void()>>{[&] { files_.read(pipe); }, [&] { files_.open(pipe); },
                                          [&] { files_.create(pipe, CreateMode::kTruncate); }}) {
    EXPECT_EQ(code_of(call, pipe), ErrorCode::kInvalidArgument);
  }
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);  // a reader
  EXPECT_EQ(code_of([&] { files_.create(pipe, CreateMode::kTruncate); }, pipe),
            ErrorCode::kInvalidArgument);
  ::close(reader);
}

TEST_F(PosixFileSystem, DevicesAndSocketsAreNotRead) {
  const Path socket_path = tested_.root / "socket";
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(socket_path.string().size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, socket_path.c_str());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  for (const Path& path : {Path("/dev/zero"), Path("/dev/null"), socket_path}) {
    EXPECT_EQ(code_of([&] { files_.read(path); }, path), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { files_.open(path); }, path), ErrorCode::kInvalidArgument);
  }
  ::close(listener);
}

TEST_F(PosixFileSystem, AFileThatNoMemoryCanHoldIsAnError) {
#ifdef BRIGADE_HAS_SANITIZER
  GTEST_SKIP() << "sanitizers end the program where memory is refused";
#endif
  const Path path = tested_.root / "sparse";
  write_file(files_, path, "x");
  std::error_code error;
  std::filesystem::resize_file(path, std::uintmax_t{1} << 43, error);  // takes no disk
  if (error) GTEST_SKIP() << "no sparse files of 8 TiB here: " << error.message();
  EXPECT_EQ(code_of([&] { files_.read(path); }, path), ErrorCode::kResourceExhausted);
}

TEST_F(PosixFileSystem, AForbiddenFolderIsPermissionDenied) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may do everything";
  std::filesystem::permissions(
      tested_.root, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const Path file = tested_.root / "file";
  EXPECT_EQ(code_of([&] { files_.create(file, CreateMode::kTruncate); }, file),
            ErrorCode::kPermissionDenied);
  std::filesystem::permissions(tested_.root, std::filesystem::perms::owner_all);
}

TEST_F(PosixFileSystem, DetectsThatAHeldFolderWasReplaced) {
  const Path folder = tested_.root / "folder";
  files_.create_directory(folder);
  const auto held = files_.hold(folder);
  std::filesystem::remove(folder);
  EXPECT_FALSE(held->is_unchanged());
  files_.create_directory(folder);
  EXPECT_FALSE(held->is_unchanged());
}

TEST_F(PosixFileSystem, EntryDoesNotFollowALink) {
  files_.create_directory(tested_.root / "folder");
  const Path link = tested_.root / "link";
  std::filesystem::create_directory_symlink(tested_.root / "folder", link);
  EXPECT_EQ(files_.info(link)->kind, FileKind::kDirectory);
  EXPECT_EQ(files_.entry(link)->kind, FileKind::kLink);
  std::filesystem::remove(tested_.root / "folder");
  EXPECT_FALSE(files_.exists(link));
  EXPECT_EQ(files_.entry(link)->kind, FileKind::kLink);
  EXPECT_EQ(code_of([&] { files_.create_directory(link); }, link), ErrorCode::kAlreadyExists);
}

TEST_F(PosixFileSystem, ReadsFilesThatReportNoSize) {
  if (!files_.exists("/proc/self/status")) GTEST_SKIP() << "no /proc here";
  EXPECT_THAT(files_.read("/proc/self/status"), HasSubstr("Pid:"));
}

std::string size_refusal(const FileSystem& files, std::uint64_t most, const Path& path = "/file") {
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
  EXPECT_EQ(size_refusal(files, 2047),
            "/file has 2.0 KiB; such a file has at most 2.0 KiB: is it the right one?");
  EXPECT_NE(size_refusal(files, 0), "none");
}

TEST(ReadAtMost, LimitsAFileThatReportsSizeZero) {
  const auto files = posix_file_system();
  const Path path = "/proc/self/maps";
  if (!files->exists(path)) GTEST_SKIP() << "no /proc here";
  ASSERT_EQ(files->info(path)->size, 0u);
  EXPECT_EQ(size_refusal(*files, 1 << 20, path), "none");
  EXPECT_THAT(size_refusal(*files, 10, path), testing::HasSubstr("has 11 B"));
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
