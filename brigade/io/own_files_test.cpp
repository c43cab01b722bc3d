// Cleaning up folders that contain files of others: their files, and the targets of their links,
// stay.
#include "brigade/io/own_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::io {
namespace {

void make_file(FileSystem& files, const Path& path) {
  const auto file = files.create(path, CreateMode::kTruncate);
  file->write(as_bytes("x"));
  file->close();
}

bool is_own(std::string_view name) {
  return name.starts_with("own-");
}

/// Captures warnings during its lifetime.
class Warnings {
 public:
  Warnings() {
    base::set_log_sink([this](base::LogLevel level, std::string_view text) {
      if (level == base::LogLevel::kWarning) all_.emplace_back(text);
    });
  }
  ~Warnings() { base::set_log_sink({}); }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

using Make = std::shared_ptr<FileSystem> (*)();

std::shared_ptr<FileSystem> on_top_of_posix() {
  return std::make_shared<FaultyFileSystem>(posix_file_system());
}

class OwnFiles : public ::testing::TestWithParam<Make> {
 protected:
  OwnFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "brigade-own-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    files_->create_directory(root_ / "folder");
    files_->create_directory(root_ / "elsewhere");
    make_file(*files_, root_ / "elsewhere" / "own-1");
    make_file(*files_, root_ / "elsewhere" / "precious");
  }
  ~OwnFiles() override { std::filesystem::remove_all(root_); }

  Path folder() const { return root_ / "folder"; }
  Path elsewhere() const { return root_ / "elsewhere"; }
  void expect_elsewhere_is_whole() const {
    EXPECT_EQ(files_->list(elsewhere()), (std::vector<std::string>{"own-1", "precious"}));
  }

  std::shared_ptr<FileSystem> files_ = GetParam()();
  Path root_;
  Warnings warnings_;
};

INSTANTIATE_TEST_SUITE_P(Posix, OwnFiles, ::testing::Values(posix_file_system));
INSTANTIATE_TEST_SUITE_P(OnTop, OwnFiles, ::testing::Values(on_top_of_posix));

TEST_P(OwnFiles, AFolderOfOwnFilesIsRemovedWithoutAWarning) {
  make_file(*files_, folder() / "own-1");
  make_file(*files_, folder() / "own-2");
  EXPECT_TRUE(remove_own_folder(*files_, folder(), is_own));
  EXPECT_FALSE(files_->exists(folder()));
  EXPECT_TRUE(remove_own_folder(*files_, folder(), is_own)) << "there is none any more";
  EXPECT_TRUE(warnings_.all().empty());
}

TEST_P(OwnFiles, ALinkInPlaceOfTheFolderStays) {
  std::filesystem::create_directory_symlink(elsewhere(), root_ / "link");
  EXPECT_FALSE(remove_own_folder(*files_, root_ / "link", is_own));
  remove_own_files(*files_, root_ / "link", is_own);
  expect_elsewhere_is_whole();
  EXPECT_TRUE(std::filesystem::is_symlink(root_ / "link"));
  ASSERT_EQ(warnings_.all().size(), 2u);
  EXPECT_NE(warnings_.all()[0].find("link is a symbolic link"), std::string::npos);
}

TEST_P(OwnFiles, ALinkWithAnOwnNameStaysWithItsFolder) {
  std::filesystem::create_directory_symlink(elsewhere(), folder() / "own-1");
  std::filesystem::create_symlink(elsewhere() / "precious", folder() / "own-2");
  make_file(*files_, folder() / "own-3");
  EXPECT_FALSE(remove_own_folder(*files_, folder(), is_own));
  expect_elsewhere_is_whole();
  EXPECT_EQ(files_->list(folder()), (std::vector<std::string>{"own-1", "own-2"}));
  ASSERT_EQ(warnings_.all().size(), 1u);
  EXPECT_NE(warnings_.all()[0].find("own-1 and 1 more"), std::string::npos);
}

TEST_P(OwnFiles, FilesOfOthersStay) {
  make_file(*files_, folder() / "own-1");
  make_file(*files_, folder() / "notes.txt");
  files_->create_directory(folder() / "own-folder");
  ASSERT_EQ(::mkfifo((folder() / "own-pipe").c_str(), 0600), 0);
  EXPECT_FALSE(remove_own_folder(*files_, folder(), is_own));
  EXPECT_EQ(files_->list(folder()),
            (std::vector<std::string>{"notes.txt", "own-folder", "own-pipe"}));
}

TEST_P(OwnFiles, FilesOfOthersInASharedFolderAreNotReported) {
  make_file(*files_, folder() / "own-1");
  make_file(*files_, folder() / "notes.txt");
  remove_own_files(*files_, folder(), is_own);
  EXPECT_EQ(files_->list(folder()), (std::vector<std::string>{"notes.txt"}));
  EXPECT_TRUE(warnings_.all().empty());
}

TEST_P(OwnFiles, AFileIsRemovedAndALinkIsNot) {
  make_file(*files_, folder() / "own-1");
  std::filesystem::create_symlink(elsewhere() / "precious", folder() / "own-2");
  EXPECT_TRUE(remove_own_file(*files_, folder() / "own-1"));
  EXPECT_TRUE(remove_own_file(*files_, folder() / "own-1"));
  EXPECT_FALSE(remove_own_file(*files_, folder() / "own-2"));
  EXPECT_FALSE(remove_own_file(*files_, elsewhere()));
  expect_elsewhere_is_whole();
  EXPECT_EQ(warnings_.all().size(), 2u);
}

TEST(OwnFilesInMemory, AreRemovedWhileOthersStay) {
  MemoryFileSystem files;
  files.create_directories("/folder/sub");
  make_file(files, "/folder/own-1");
  const FolderSweep sweep = files.remove_files("/folder", is_own);
  EXPECT_TRUE(sweep.is_folder);
  EXPECT_EQ(sweep.left, (std::vector<std::string>{"sub"}));
  EXPECT_FALSE(files.remove_files("/none", is_own).is_folder);
}

}  // namespace
}  // namespace brigade::io
